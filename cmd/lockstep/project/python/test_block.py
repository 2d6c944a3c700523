import unittest

from block import greet


class GreetTest(unittest.TestCase):
    def test_greets_by_name(self):
        answer = greet({"entity": {"type": "device", "id": "sw-1"}, "parameters": {"greeting": "Hello"}})
        self.assertEqual(answer["outcome"], "OK")
        self.assertEqual(answer["result"], {"text": "Hello, sw-1"})
        self.assertEqual(answer["updates"][0]["set"], {"greeted": "Hello, sw-1"})


if __name__ == "__main__":
    unittest.main()
