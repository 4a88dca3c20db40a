"""What a scripted agent does in a repository: its commands, its edits, and what it asks for later.

A plan is made by running everything once in a copy of the repository, so the same repository and seed always give the
same commands, edits and outputs.
"""

import collections
import hashlib
import random
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import kit

# Codex keeps the first and the last 20,000 bytes of an output. What the agent asks for stands in these parts.
KEPT = 16_000
COMMANDS_PER_PROMPT = 20
ASKS_EVERY = 8
WORDS = "the next step is to check how this part handles its input before the change because callers rely on the order of results and errors".split()
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{6,30}")
BUILD_LOG = kit.HERE / "programs/build_log.py"

# Kinds of steps, and how many of a hundred steps are of each.
MIX = {"search": 18, "read": 24, "cat": 11, "again": 11, "list": 4, "git": 7, "build": 5, "test": 8, "edit": 12}


@dataclass
class Fact:
    """A line of an earlier output that the agent needs again."""

    line: str
    step: int
    # What it searches for: the word of the line that its output has least often.
    word: str


@dataclass
class Step:
    """A call of the agent, with what it thinks and says before it."""

    tool: str
    input: str
    reasoning: str
    text: str
    kind: str
    output: str = ""
    asks: Fact | None = None


@dataclass
class Plan:
    steps: list[Step] = field(default_factory=list)

    def prompts(self, count: int) -> list[str]:
        """The user's messages, each for the next COMMANDS_PER_PROMPT steps."""
        rng = random.Random(3)
        return [f"Task {n}: {sentence(rng, 60)}" for n in range(-(-count // COMMANDS_PER_PROMPT))]


def sentence(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, k=words)).capitalize() + "."


class Planner:
    """Plans steps in the copy of a repository at `folder`, which it changes."""

    def __init__(self, folder: Path, seed: int):
        self.folder, self.rng, self.plan = folder, random.Random(seed), Plan()
        listed = subprocess.run(["git", "ls-files"], cwd=folder, capture_output=True, text=True, check=True).stdout.split("\n")
        sizes = {name: (folder / name).stat().st_size for name in listed if name and " " not in name and (folder / name).is_file()}
        texts = [name for name, size in sizes.items() if 1_500 < size < 300_000 and Path(name).suffix in (".rs", ".py", ".js", ".ts", ".md", ".toml", ".txt", ".rst", ".yml")]
        self.code = [name for name in texts if Path(name).suffix in (".rs", ".py", ".js", ".ts")] or texts
        self.texts = texts
        self.focus: list[str] = []
        self.reads: list[str] = []

    def make(self, count: int) -> Plan:
        for number in range(count):
            if number % 40 == 0:
                # The agent works on a dozen files at a time, most of them in one part of the tree.
                near = self.rng.choice(self.code).split("/")[0]
                part = [name for name in self.code if name.startswith(near)]
                self.focus = self.rng.sample(part, min(len(part), 9)) + self.rng.sample(self.code, min(len(self.code), 4))
                self.reads = self.reads[-6:]
            kind = "list" if number == 0 else self.rng.choices(list(MIX), list(MIX.values()))[0]
            tool, given = self.call(kind, number)
            step = Step(tool, given, sentence(self.rng, self.rng.randint(15, 140)), "", kind)
            if self.rng.random() < 0.3:
                step.text = sentence(self.rng, self.rng.randint(8, 40))
            if tool == "exec_command":
                done = subprocess.run(["bash", "-c", given], cwd=self.folder, capture_output=True, text=True, errors="replace", timeout=60)
                step.output = done.stdout + done.stderr
            self.plan.steps.append(step)
            if number % ASKS_EVERY == ASKS_EVERY - 1:
                step.asks = self.fact(number)
        return self.plan

    def call(self, kind: str, number: int) -> tuple[str, str]:
        rng = self.rng
        name = rng.choice(self.focus)
        if kind == "edit":
            return "apply_patch", self.edit(name, number)
        lines = len((self.folder / name).read_text(errors="replace").splitlines())
        if kind == "search":
            words = WORD.findall((self.folder / name).read_text(errors="replace")) or ["return"]
            where = rng.choice([".", str(Path(name).parent), str(Path(name).parent)])
            command = f"grep -rnI --exclude-dir=.git '{rng.choice(words)}' {where} | sort | head -n {rng.choice((40, 80, 200))}"
        elif kind == "again" and self.reads:
            command = rng.choice(self.reads)
        elif kind == "cat":
            names = [name for name in self.focus if (self.folder / name).stat().st_size < 60_000]
            command = f"cat {rng.choice(names or [name])}"
        elif kind == "list":
            command = rng.choice(("ls -R . | head -n 600", "find . -name .git -prune -o -type f -print | sort | xargs wc -c | tail -n 400", f"ls -laR {name.split('/')[0]} | head -n 300"))
        elif kind == "git":
            command = rng.choice(("git diff", "git diff --stat", "git log --stat -n 12", f"git log -p -n 2 -- {name}", "git show HEAD", "git status --short"))
        elif kind in ("build", "test"):
            command = f"python3 {BUILD_LOG} {kind} {number}" + rng.choice(("", " | tail -n 60"))
        else:
            first = rng.randint(1, max(1, lines - 60))
            command = f"sed -n '{first},{first + rng.randint(80, 260)}p' {name}"
        if command.startswith(("sed", "cat")):
            self.reads.append(command)
        return "exec_command", command

    def edit(self, name: str, number: int) -> str:
        """A patch that changes a line of the file and adds two, which is applied here as well."""
        path = self.folder / name
        lines = path.read_text(errors="replace").split("\n")
        counts = collections.Counter(lines)
        places = [at for at in range(3, len(lines) - 4) if len(lines[at].strip()) > 12 and counts[lines[at]] == 1 and "\r" not in lines[at]]
        if not places:
            return f"*** Begin Patch\n*** Add File: notes/{number}.md\n+{sentence(self.rng, 20)}\n*** End Patch\n"
        at = self.rng.choice(places)
        mark = "#" if name.endswith(".py") else "//"
        added = [f"{lines[at][: len(lines[at]) - len(lines[at].lstrip())]}{mark} {sentence(self.rng, 9)}" for _ in range(2)]
        hunk = [f" {line}" for line in lines[at - 3 : at]] + [f"+{line}" for line in added] + [f" {line}" for line in lines[at : at + 4]]
        lines[at:at] = added
        path.write_text("\n".join(lines))
        return f"*** Begin Patch\n*** Update File: {name}\n@@\n" + "\n".join(hunk) + "\n*** End Patch\n"

    def fact(self, number: int) -> Fact | None:
        """A line of one of the outputs so far, of any age."""
        for _ in range(50):
            at = self.rng.randrange(number + 1)
            output = self.plan.steps[at].output
            kept = output if len(output) <= 2 * KEPT else output[:KEPT] + output[-KEPT:]
            lines = [line for line in kept.split("\n")[1:-1] if 25 <= len(line.strip()) <= 160 and WORD.search(line)]
            if lines:
                line = self.rng.choice(lines).strip()
                return Fact(line, at, min(WORD.findall(line), key=lambda word: (output.count(word), -len(word))))
        return None


def clone(name: str, folder: Path) -> Path:
    """A git repository with the named source: `respondent` is this one, the others are pinned packages."""
    target = folder / name.split("@")[0].replace("/", "-")
    if target.exists():
        return target
    if name == "respondent":
        subprocess.run(["git", "clone", "-q", "--no-tags", kit.ROOT, target], check=True)
        return target
    kind, package = name.split(":")
    unpacked = {"crate": crate, "pypi": sdist}[kind](*package.split("@"), folder)
    shutil.copytree(unpacked, target)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    for command in (["git", "init", "-q"], ["git", "add", "-A", "-f"], [*git, "commit", "-q", "-m", f"{package} as published", "--date=2026-01-01T00:00:00Z"]):
        subprocess.run(command, cwd=target, check=True)
    return target


def crate(name: str, version: str, folder: Path) -> Path:
    """The source of a crate, which cargo downloads."""
    project = folder / f"fetch-{name}"
    (project / "src").mkdir(parents=True)
    (project / "src/lib.rs").touch()
    (project / "Cargo.toml").write_text(f'[workspace]\n[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n{name} = "={version}"\n')
    subprocess.run(["cargo", "vendor", "-q", "vendor"], cwd=project, check=True, stdout=subprocess.DEVNULL)
    return project / "vendor" / name


def sdist(name: str, version: str, folder: Path) -> Path:
    """The source of a Python package, which pip downloads."""
    download = folder / f"fetch-{name}"
    subprocess.run([kit.VENV_PYTHON, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", f"{name}=={version}", "-d", download], check=True)
    shutil.unpack_archive(next(download.glob("*.tar.gz")), download)
    return next(path for path in download.iterdir() if path.is_dir())


def plan(repository: Path, folder: Path, count: int, seed: int) -> Plan:
    copy = folder / f"plan-{hashlib.sha256(f'{repository}{count}{seed}'.encode()).hexdigest()[:8]}"
    shutil.copytree(repository, copy, symlinks=True)
    return Planner(copy, seed).make(count)
