"""The safetensors format, as much of it as the default model needs.

A file is an 8-byte little-endian header length, a JSON header of name -> (dtype, shape,
byte range), and the tensors' bytes one after another.
"""

from __future__ import annotations

import json
import pathlib
import struct

import numpy as np
import torch


def save_bf16(path: pathlib.Path, tensors: dict[str, torch.Tensor]) -> None:
    """Writes `tensors` rounded to bfloat16 (nearest, ties to even), in order of name."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    blobs: list[bytes] = []
    offset = 0
    for name in sorted(tensors):
        tensor = tensors[name].detach().to(torch.bfloat16).contiguous()
        blob = tensor.view(torch.int16).numpy().tobytes()
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the tensors then start on a multiple of 8 bytes
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def load_bf16(path: pathlib.Path) -> dict[str, torch.Tensor]:
    """Reads a file of BF16 tensors, upcast (exactly) to float32."""
    data = path.read_bytes()
    (header_size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + header_size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] != "BF16":
            raise ValueError(f"{path}: {name} is {entry['dtype']}, not BF16")
        begin, end = (8 + header_size + offset for offset in entry["data_offsets"])
        bits = np.frombuffer(data[begin:end], "<u2").astype(np.uint32) << 16
        tensors[name] = torch.from_numpy(bits.view(np.float32).reshape(entry["shape"]))
    return tensors
