"""Prints what a build or the tests of the working folder could print: build_log.py build|test SEED

Names, code and functions are those of the files in the folder. The same files and seed print the same.
"""

import random
import re
import sys
from pathlib import Path

FUNCTION = re.compile(r"(?m)^\s*(?:pub )?(?:async )?(?:fn|def|function) (\w+)")


def sources() -> list[Path]:
    found = [path for end in ("rs", "py", "js", "ts") for path in Path(".").rglob(f"*.{end}") if ".git" not in path.parts]
    return sorted(found)[:400]


def build(rng: random.Random, files: list[Path]):
    for path in files[: rng.randint(60, 180)]:
        print(f"   Compiling {path.stem} v{rng.randint(0, 3)}.{rng.randint(0, 30)}.{rng.randint(0, 9)}")
    for path in rng.sample(files, min(len(files), rng.randint(2, 12))):
        lines = path.read_text(errors="replace").splitlines() or [""]
        at = rng.randrange(len(lines))
        word = next(iter(re.findall(r"[A-Za-z_]\w{3,}", lines[at])), "value")
        print(f"warning: unused variable: `{word}`\n   --> {path}:{at + 1}:{rng.randint(1, 40)}\n    |")
        for number in range(max(0, at - 1), min(len(lines), at + 2)):
            print(f"{number + 1:3} | {lines[number][:160]}")
        print(f"    | {'^' * len(word)} help: if this is intentional, prefix it with an underscore: `_{word}`\n    |")
    print(f"    Finished `dev` profile [unoptimized + debuginfo] target(s) in {rng.uniform(4, 90):.2f}s")


def test(rng: random.Random, files: list[Path]):
    names = []
    for path in rng.sample(files, min(len(files), 60)):
        module = "::".join(path.with_suffix("").parts[-3:])
        names += [f"{module}::{name}" for name in FUNCTION.findall(path.read_text(errors="replace"))]
    names = names[: rng.randint(120, 500)]
    failed = set(rng.sample(names, min(len(names), rng.choice((0, 1, 2)))))
    print(f"running {len(names)} tests")
    for name in names:
        print(f"test {name} ... {'FAILED' if name in failed else 'ok'}")
    for name in sorted(failed):
        print(f"\n---- {name} stdout ----\nassertion `left == right` failed: {name.rsplit('::', 1)[-1]}")
        print(f"  left: {rng.randint(0, 1 << 30)}\n right: {rng.randint(0, 1 << 30)}\nstack backtrace:")
        for depth, frame in enumerate(rng.sample(names, min(len(names), 14))):
            print(f"  {depth:2}: {frame}\n             at ./{frame.split('::')[0]}/{frame.split('::')[1]}:{rng.randint(1, 900)}:{rng.randint(1, 60)}")
    verdict = "FAILED" if failed else "ok"
    print(f"\ntest result: {verdict}. {len(names) - len(failed)} passed; {len(failed)} failed; 0 ignored; finished in {rng.uniform(0.3, 40):.2f}s")


if __name__ == "__main__":
    kind, seed = sys.argv[1], int(sys.argv[2])
    {"build": build, "test": test}[kind](random.Random(seed), sources())
