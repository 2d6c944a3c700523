import unittest

from block import answer, greet


class GreetTest(unittest.TestCase):
    def test_greets_by_name(self):
        answer = greet({"entity": {"type": "device", "id": "sw-1"}, "parameters": {"greeting": "Hello"}})
        self.assertEqual(answer["outcome"], "OK")
        self.assertEqual(answer["result"], {"text": "Hello, sw-1"})
        self.assertEqual(answer["updates"][0]["set"], {"greeted": "Hello, sw-1"})

    def test_refuses_unknown_blocks(self):
        answered = answer({"block": "{{name}}/other:1.0.0"})
        self.assertEqual(answered["outcome"], "ERROR")
        self.assertEqual(answered["error"]["code"], "UNKNOWN_BLOCK")
        self.assertIn("{{name}}/other:1.0.0", answered["error"]["message"])


if __name__ == "__main__":
    unittest.main()
