"""The tables, in the order of a report; one file each."""

from tables import (
    decode, held, load, long_prompts, mixers, position, prefill, service, size, start, step,
)

ALL = {table.NAME: table for table in (
    decode, prefill, step, start, service, load, position, held, size, mixers, long_prompts)}
