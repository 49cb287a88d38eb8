"""Writes the codebooks of the IQ number formats, as the gguf package holds them.

    python scripts/iq_grids.py crates/quern-kernels/src/formats/grids

The package packs an entry's eight values into two bits each, or its four into a nibble each, which is the layout that
`grids.rs` reads; so each file is the package's table out of its hexadecimal. Needs gguf.
"""

import argparse
import pathlib

from gguf import quants

TABLES = {
    "iq1": quants.IQ1_S,
    "iq2_xxs": quants.IQ2_XXS,
    "iq2_xs": quants.IQ2_XS,
    "iq2_s": quants.IQ2_S,
    "iq3_xxs": quants.IQ3_XXS,
    "iq3_s": quants.IQ3_S,
}


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("out", type=pathlib.Path)
    args = args.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name, table in TABLES.items():
        entries = bytes.fromhex(table.grid_hex.decode())
        assert len(entries) == 2 * table.grid_shape[0], name
        (args.out / f"{name}.bin").write_bytes(entries)
        print(f"{name:8} {table.grid_shape[0]:5} entries of {table.grid_shape[1]}")


if __name__ == "__main__":
    main()
