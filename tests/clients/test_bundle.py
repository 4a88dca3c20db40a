"""Tests of the search for canaries."""

import base64
import unittest

import kit
from bundle import CANARIES, FORMS, free_of_canaries, planted


class Canaries(unittest.TestCase):
    def test_every_form_is_found_in_any_place(self):
        for secret in CANARIES.values():
            for form in FORMS.values():
                for around in ("", "a", "ab", "abc"):
                    text = f"{around}{form(secret)}{around}"
                    for content in (text, base64.b64encode(f"{around}{secret}{around}".encode()).decode()):
                        with self.assertRaises(kit.Failure):
                            free_of_canaries("here", content.encode())

    def test_other_texts_have_no_canaries(self):
        free_of_canaries("here", b"sk-another-key " + base64.b64encode(b"sk-another-key"))

    def test_placeholders_are_replaced(self):
        case = planted({"a": ["@key@", {"b": "x @key:percent@"}], "c": 1, "d": "me@example.org"})
        key = CANARIES["key"]
        self.assertEqual(case, {"a": [key, {"b": "x " + key.replace("/", "%2F").replace("+", "%2B")}], "c": 1, "d": "me@example.org"})


if __name__ == "__main__":
    unittest.main()
