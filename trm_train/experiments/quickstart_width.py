"""First study of a new user: the quickstart at three widths."""

from __future__ import annotations

from trm_train.experiments.claim import Better, Reaches
from trm_train.experiments.guide import Guide, Quantity
from trm_train.experiments.quickstart import quickstart
from trm_train.experiments.setting import Setting
from trm_train.experiments.study import Study

STUDY = Study(
    name="quickstart_width",
    guide=Guide(
        question="How much of the quickstart's accuracy does its width buy, and how much is the seed's luck?",
        varies="width D",
        fixed="all else of the quickstart",
        expected="more with every width, and at least 95% at 96; seeds of one width should differ by less than the "
        "narrowest and the widest do",
        claims=(
            Better("quickstart_064", "quickstart_032"),
            Better("quickstart_096", "quickstart_064"),
            Better("quickstart_096", "quickstart_032", clearly=True),
            Reaches("quickstart_096", 95),
        ),
        judge_by="exact accuracy of three seeds a width: `trm-train batch quickstart_width --seeds 0,1,2`, then "
        "`trm-eval report quickstart_width`",
        cost="26 minutes of training for three seeds on two CPU cores, 30 with the data and the tests",
    ),
    base=lambda _: quickstart(),
    settings=(Setting("tiny", "generated"),),
    quantity=Quantity("width", "features", lambda config: config.model.hidden_size),
)

for width in (32, 64, 96):
    STUDY.add(
        f"quickstart_{width:03d}",
        f"D {width}",
        {"model.hidden_size": width},
        alias_of="quickstart" if width == 96 else None,
    )
