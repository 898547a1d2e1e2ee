"""Print where the time of a test run went: seconds per folder, and the 20 slowest tests, from JUnit files."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

SLOWEST = 20


def main(files: list[str]) -> None:
    """Read the JUnit files that a run wrote, and print two tables."""
    there = [file for file in files if Path(file).exists()]
    cases = [case for file in there for case in ET.parse(file).iter("testcase")]  # noqa: S314 - our own file
    seconds = {(case.get("classname", ""), case.get("name", "")): float(case.get("time", 0)) for case in cases}
    folders, counts = Counter[str](), Counter[str]()
    for (module, _), spent in seconds.items():
        folder = "/".join(module.split(".")[:2])
        folders[folder] += spent
        counts[folder] += 1
    print("\nseconds by folder")
    for folder, spent in folders.most_common():
        print(f"  {spent:8.1f}  {folder} ({counts[folder]} tests)")
    print(f"  {folders.total():8.1f}  in all ({len(seconds)} tests)")
    print(f"\nthe {SLOWEST} slowest tests")
    for (module, name), spent in sorted(seconds.items(), key=lambda item: -item[1])[:SLOWEST]:
        print(f"  {spent:8.1f}  {module.replace('.', '/')}.py::{name}")


if __name__ == "__main__":
    main(sys.argv[1:])
