"""Tests of `kit` and of the verdict of the soak."""

import contextlib
import io
import os
import tempfile
import unittest
from pathlib import Path

from kit import expanded, mismatch, run_program
from soak import Sample, verdict


class RunProgram(unittest.TestCase):
    def test_what_the_program_started_has_ended_as_well(self):
        with tempfile.TemporaryDirectory() as folder:
            script = "for n in {1..30}; do sleep 60 & echo $!; done"
            folder = Path(folder)
            code, started, _ = run_program(["bash", "-c", script], folder, dict(os.environ), 20, cwd=folder)
            left = [pid for pid in started.split() if Path("/proc", pid).exists()]
        self.assertEqual((code, len(started.split()), left), (0, 30, []))


class Mismatch(unittest.TestCase):
    def test_equal_values_match(self):
        for value in (1, "text", None, True, [1, 2], {"a": {"b": []}}):
            self.assertIsNone(mismatch(value, value))

    def test_different_values_do_not_match(self):
        for expected, actual in ((1, 2), ("a", "ab"), (None, ""), ({}, []), ([], {}), ([], [1]), ({"a": 1}, {})):
            self.assertIsNotNone(mismatch(expected, actual), (expected, actual))

    def test_objects_may_have_more_keys(self):
        self.assertIsNone(mismatch({"a": 1}, {"a": 1, "b": 2}))

    def test_lists_are_subsequences_in_order(self):
        self.assertIsNone(mismatch([1, 3], [1, 2, 3]))
        self.assertIsNotNone(mismatch([3, 1], [1, 2, 3]))
        self.assertIsNotNone(mismatch([1, 1], [1]))

    def test_patterns_match_only_strings(self):
        self.assertIsNone(mismatch("~b.c", "ab\ncd"))
        self.assertIsNotNone(mismatch("~b", "a"))
        self.assertIsNotNone(mismatch("~n", None))


class Expanded(unittest.TestCase):
    def test_answers_are_copied_with_their_numbers(self):
        script = {"answers": [{"times": 2, "answers": [{"a": "#before#"}, {"b": [{"c": "#n##backwards#"}], "d": 1}]}, {"e": "#n#"}]}
        copies = [{"a": "0"}, {"b": [{"c": "22"}], "d": 1}, {"a": "2"}, {"b": [{"c": "44"}], "d": 1}, {"e": "#n#"}]
        self.assertEqual(expanded(script), {"answers": copies})

    def test_digits_are_reversed(self):
        script = {"answers": [{"times": 12, "answers": [{"a": "#backwards#"}]}]}
        self.assertEqual(expanded(script)["answers"][11], {"a": "21"})


class Verdict(unittest.TestCase):
    """What a soak judges."""

    def judged(self, **grows) -> list[str]:
        """The verdict on ten minutes in which these figures grow by so much a minute."""
        flat = {"rss": 100.0, "peak": 110.0, "descriptors": 30, "threads": 8, "tasks": 20, "median": 2.0, "p99": 5.0, "counted": 80.0, "turns": 1000, "lost": 0}
        samples = [
            Sample(minute=minute, is_attacked=False, **{name: value + grows.get(name, 0) * minute for name, value in flat.items()})
            for minute in range(11)
        ]
        with contextlib.redirect_stdout(io.StringIO()):
            return verdict(samples[:-1], samples[-1], 20.0, 300.0, [])

    def test_what_stays_flat_is_right(self):
        self.assertEqual(self.judged(), [])

    def test_what_leaks_is_named(self):
        for name, growth in {"descriptors": 1, "threads": 1, "tasks": 1}.items():
            self.assertEqual(self.judged(**{name: growth}), [f"{name} grow by {growth:.2f} a minute"])
        self.assertIn("RSS grows by 2.00 MB a minute", self.judged(rss=2.0))
        self.assertIn("RSS was 380.0 MB, more than 300.0 MB", self.judged(peak=30.0))
        self.assertRegex(self.judged(counted=-4.0)[0], "are counted")


if __name__ == "__main__":
    unittest.main()
