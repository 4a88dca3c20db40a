"""Tests of the documents: their links, the length of the README, and the cases that run what they say."""

import json
import re
import unittest
from pathlib import Path
from xml.etree import ElementTree

import kit
import readme
import trouble

DOCS = sorted((kit.ROOT / "docs").glob("*.md"))
PAGES = [*sorted(kit.ROOT.glob("*.md")), *DOCS]
CONTRIBUTING = kit.ROOT / "CONTRIBUTING.md"
PICTURES = sorted((kit.ROOT / "docs/images").glob("*.svg"))
# What is fetched from elsewhere or runs, and what names the machine of a recording.
FOREIGN = r"""url\(|@import|@font-face|<(?:script|image|foreignObject|style )|href=["'](?!#)|\bon\w+=|&(?!amp;|lt;|gt;)|://(?!www\.w3\.org/2000/svg")"""
MACHINE = r"/(?:tmp|home|root|work|Users|var)\b|@\w+:"
FENCES = re.compile(r"^```.*?^```$", re.M | re.S)


def cases(client: str) -> list[dict]:
    """The cases of a client."""
    files = (kit.HERE / "cases" / client).glob("*.json")
    return [case for file in files for case in json.loads(file.read_text()).values()]


def values(client: str, key: str) -> set[str]:
    """What the cases of a client have as `key`."""
    return {case[key] for case in cases(client) if key in case}


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", FENCES.sub("", page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class Docs(unittest.TestCase):
    # Promise: Every shell block of the README and of the other pages runs unchanged in a new home,
    # with the Codex CLI, the OpenAI SDK and stand-ins for providers, web sites and MCP servers, and
    # prints what the page shows.
    def test_every_shell_block_is_run(self):
        named = {(str(page.relative_to(kit.ROOT)), block) for page in PAGES for block in readme.blocks(page.read_text())}
        run = {(case.get("page", "README.md"), case["block"]) for case in cases("readme") if "block" in case}
        run |= {("docs/deployment.md", block) for block in values("packages", "block")}
        self.assertEqual(named, run)

    def test_every_provider_of_the_readme_is_run(self):
        self.assertEqual(set(readme.table(readme.README.read_text())), values("readme", "provider"))

    # Promise: Every symptom in the troubleshooting guide occurs as it is quoted there, and its
    # remedy removes it.
    def test_every_symptom_of_troubleshooting_is_produced(self):
        self.assertEqual(set(trouble.rows()), values("trouble", "row"))

    def test_every_row_of_troubleshooting_quotes_a_symptom(self):
        lines = trouble.PAGE.read_text().splitlines()
        rows = [line for line in lines if line.startswith("| ") and len(line.split(" | ")) == 3]
        rows = [line for line in rows if not line.startswith("| symptom ")]
        self.assertEqual(len(trouble.rows()), len(rows))

    def test_the_readme_is_short(self):
        text = readme.README.read_text()
        self.assertLessEqual(len(text.split()), 700)

    def test_the_codex_of_the_docs_is_the_tested_one(self):
        packages = json.loads((kit.HERE / "package.json").read_text())["dependencies"]
        major_minor = packages["@openai/codex"].removesuffix(".0")
        told = re.search(r"Respondent is tested with version ([\d.]+\d)", (kit.ROOT / "docs/codex.md").read_text())
        self.assertEqual(told[1], major_minor)

    def test_every_link_leads_somewhere(self):
        for page in PAGES:
            for target in re.findall(r"\]\(([^)\s]+)\)", FENCES.sub("", page.read_text())):
                if target.startswith("http"):
                    continue
                path, _, anchor = target.partition("#")
                file = (page.parent / path).resolve() if path else page
                with self.subTest(page=page.name, target=target):
                    self.assertTrue(file.exists())
                    if anchor:
                        self.assertIn(anchor, anchors(file))

    def test_pictures_are_small_and_need_nothing_else(self):
        self.assertEqual([picture.name for picture in PICTURES], ["codex-kimi-dark.svg", "codex-kimi-light.svg"])
        for picture in PICTURES:
            with self.subTest(picture=picture.name):
                text = picture.read_text()
                self.assertEqual(ElementTree.fromstring(text).tag, "{http://www.w3.org/2000/svg}svg")
                self.assertLessEqual(len(text.encode()), 150_000)
                self.assertEqual(re.findall(FOREIGN, text), [])
                self.assertEqual(re.findall(MACHINE, text), [])
                self.assertIn("prefers-reduced-motion", text)

    def test_pictures_of_the_readme_exist(self):
        shown = re.findall(r'src(?:set)?="([^"]+)"', readme.README.read_text())
        self.assertEqual([path for path in shown if not (kit.ROOT / path).exists()], [])

    def test_every_page_can_be_reached_from_the_readme(self):
        linked = set(re.findall(r"\]\((docs/[a-z]+(?:-[a-z]+)*\.md)", readme.README.read_text()))
        self.assertEqual(linked, {f"docs/{page.name}" for page in DOCS})

    def test_contributors_are_told_of_files_that_exist(self):
        """But for those of the provider that serves as the example, and for what is built."""
        text = CONTRIBUTING.read_text() + (kit.ROOT / "docs/releasing.md").read_text()
        paths = re.findall(r"`([\w.-]+(?:/[\w.-]+)+/?)[` ]", FENCES.sub("", text))
        paths = [path for path in paths if "acme" not in path and not path.startswith("target/")]
        self.assertGreater(len(paths), 30)
        self.assertEqual([path for path in paths if not (kit.ROOT / path).exists()], [])

    def test_contributors_are_told_of_recipes_that_exist(self):
        told = set(re.findall(r"`just (\w+)", CONTRIBUTING.read_text()))
        recipes = set(re.findall(r"^(\w+)(?: [*A-Z]+)?:$", (kit.ROOT / "justfile").read_text(), re.M))
        self.assertEqual(told, recipes - {"default"})


if __name__ == "__main__":
    unittest.main()
