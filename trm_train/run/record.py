"""Old import path of `trm_train.runs.record`."""

from trm_train.runs.record import RunRecord, find_run, list_runs, read_record

__all__ = ["RunRecord", "find_run", "list_runs", "read_record"]
