"""Records: what a run leaves behind."""

from rollpe_lab.records.provenance import environment, loaded_source, now
from rollpe_lab.records.record import (
    Environment,
    EpochMetrics,
    FinalMetrics,
    Provenance,
    Record,
    RunId,
    comparable,
    flatten,
    pack_bits,
    slug,
    unpack_bits,
)
from rollpe_lab.records.store import (
    claim,
    find_arrays,
    read_arrays,
    read_record,
    read_records,
    record_path,
    write_arrays,
    write_record,
)
