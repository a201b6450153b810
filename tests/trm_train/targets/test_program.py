"""Numbers read from an optimized program: cycles over loops, bytes of kernels."""

from __future__ import annotations

from trm_train.targets.estimate import (
    Program,
    estimated_cycles,
    kernels_without_estimate,
    moved_bytes,
    products_without_estimate,
)

CYCLES = 'backend_config={"estimated_cycles":"%d"}'
TPU = f"""HloModule step

%condition (p: (s32[], bf16[4,8])) -> pred[] {{
  %bound = s32[]{{:T(128)}} constant(3), metadata={{op_name="x"}}
  %p = (s32[], bf16[4,8]) parameter(0)
  %i = s32[]{{:T(128)}} get-tuple-element(%p), index=0
  ROOT %lt = pred[]{{:T(512)}} compare(%i, %bound), direction=LT
}}

%body (p: (s32[], bf16[4,8])) -> (s32[], bf16[4,8]) {{
  %p = (s32[], bf16[4,8]) parameter(0)
  %x = bf16[4,8] get-tuple-element(%p), index=1
  %y = bf16[4,8] fusion(%x), kind=kOutput, calls=%f, {CYCLES % 10}
  %k = bf16[4,8] custom-call(%y), custom_call_target="tpu_custom_call"
  ROOT %t = (s32[], bf16[4,8]) tuple(%i, %k)
}}

%dynamic (p: (s32[], s32[])) -> pred[] {{
  %p = (s32[], s32[]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %n = s32[] get-tuple-element(%p), index=1
  ROOT %lt = pred[] compare(%i, %n), direction=LT
}}

ENTRY %main (a: bf16[4,8]) -> bf16[4,8] {{
  %a = bf16[4,8] parameter(0)
  %w = (s32[], bf16[4,8]) while(%t), condition=%condition, body=%body
  %v = (s32[], bf16[4,8]) while(%t), condition=%condition, body=%body, backend_config={{"known_trip_count":{{"n":"5"}}}}
  %u = (s32[], bf16[4,8]) while(%t), condition=%dynamic, body=%body
  %d = bf16[4,8] dot(%a, %a), lhs_contracting_dims={{1}}
  ROOT %r = bf16[4,8] fusion(%a), kind=kLoop, calls=%g, {CYCLES % 7}
}}
"""


def test_cycles_of_a_loop_count_as_often_as_it_runs() -> None:
    program = Program.read(TPU)
    assert estimated_cycles(program) == 7 + 10 * (3 + 5 + 1)
    assert program.unknown_loops == ["u"]


def test_what_has_no_estimate_is_counted() -> None:
    program = Program.read(TPU)
    assert kernels_without_estimate(program) == 3 + 5 + 1
    assert products_without_estimate(program) == 1


GPU = """HloModule step

ENTRY %main (a: f32[4,8], b: bf16[8,2]) -> f32[4,2] {
  %a = f32[4,8]{1,0} parameter(0)
  %b = bf16[8,2]{1,0} parameter(1)
  %c = f32[4,2]{1,0} custom-call(%a, %b), custom_call_target="__cublas$lt$matmul", backend_config={}
  %d = (bf16[2,2]{1,0}, s8[16]{0}) custom-call(%b), custom_call_target="__cudnn$fmhaSoftmax"
  %e = bf16[2,2]{1,0} get-tuple-element(%d), index=0
  ROOT %f = f32[4,2]{1,0} fusion(%c, %e), kind=kLoop, calls=%g
}
"""


def test_bytes_of_kernels_are_their_operands_and_results() -> None:
    assert moved_bytes(Program.read(GPU)) == {
        "matrix products": 4 * 8 * 4 + 8 * 2 * 2 + 4 * 2 * 4,
        "attention": 8 * 2 * 2 + 2 * 2 * 2 + 16,
        "elementwise": 4 * 2 * 4 + 2 * 2 * 2 + 4 * 2 * 4,
    }
