#!/bin/sh
# An ArrayRecord file whose writer was not closed is a valid file without records.
#
# Versions:  array_record 0.8.6.
# Behaviour: records wait in the writer; the file on disk is empty until `close()`. A reader opens it without an error
#            and reports 0 records.
# Guess:     a file without its footer is refused, or the records flushed so far are there.
# Effect:    an interrupted build leaves shards that read as empty, and a loader over them trains on fewer rows.
# Seen:      before close 0 bytes and 0 records, after close 3 records
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check array_record==0.8.6 numpy==2.4.6
"$tmp/venv/bin/python" - <<'EOF'
import os
import sys
import tempfile
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

path = os.path.join(tempfile.mkdtemp(), "rows.array_record")
writer = ArrayRecordWriter(path, "group_size:1")
for i in range(3):
    writer.write(b"row %d" % i)
size, before = os.path.getsize(path), ArrayRecordReader(path).num_records()
writer.close()
after = ArrayRecordReader(path).num_records()
print(f"before close {size} bytes and {before} records, after close {after} records")
sys.exit((size, before, after) != (0, 0, 3))
EOF
