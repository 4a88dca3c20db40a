"""A provider of Chat Completions that behaves as a real one does towards a user's mistakes.

    provider.py PORT UPSTREAM

It answers at http://127.0.0.1:PORT/v1/chat/completions with what the scripted upstream at UPSTREAM says, and lists its
models at /v1/models. Wrong keys, models and addresses, and requests that are too long, are refused in the words of
OpenAI.
"""

import http.client
import http.server
import json
import sys
from urllib.parse import urlsplit

RIGHT_KEY, EMPTY_ACCOUNT, BUSY_ACCOUNT = "sk-the-right-key", "sk-without-credit", "sk-at-its-limit"
# The longest request of each model, in bytes.
MODELS = {"m1": 100_000, "m2": 1_000_000, "kimi-k3": 1_000_000, "kimi-k3.1-pro": 1_000_000}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    upstream = ""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        status, error = self.verdict(body)
        if error is not None:
            self.reply(status, json.dumps(error).encode())
        else:
            self.pass_on(body)

    def do_GET(self):
        if self.path != "/v1/models":
            self.reply(404, json.dumps({"message": "Not Found"}).encode())
        elif self.key() != RIGHT_KEY:
            self.reply(401, json.dumps(WRONG_KEY).encode())
        else:
            self.pass_on(None)

    def pass_on(self, body: bytes | None):
        connection = http.client.HTTPConnection(self.upstream)
        connection.request(self.command, self.path, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        self.reply(answer.status, answer.read(), answer.headers["content-type"])
        connection.close()

    def key(self) -> str:
        return (self.headers["authorization"] or "").removeprefix("Bearer ")

    def verdict(self, body: bytes):
        if self.path != "/v1/chat/completions":
            return 404, {"message": "Not Found"}
        key = self.key()
        if key == EMPTY_ACCOUNT:
            text = "You exceeded your current quota, please check your plan and billing details."
            return 429, openai_error(text, "insufficient_quota", "insufficient_quota")
        if key == BUSY_ACCOUNT:
            text = "Rate limit reached for requests. Please try again in 1s."
            return 429, openai_error(text, "requests", "rate_limit_exceeded")
        if key != RIGHT_KEY:
            return 401, WRONG_KEY
        model = json.loads(body)["model"]
        if model not in MODELS:
            text = f"The model `{model}` does not exist or you do not have access to it."
            return 404, openai_error(text, "invalid_request_error", "model_not_found")
        if len(body) > MODELS[model]:
            text = "This model's maximum context length is 40000 tokens. Please reduce the length of the messages."
            return 400, openai_error(text, "invalid_request_error", "context_length_exceeded")
        return 200, None

    def reply(self, status: int, body: bytes, kind="application/json"):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        if status == 429:
            self.send_header("retry-after", "1")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def openai_error(message: str, kind: str, code: str) -> dict:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


WRONG_KEY = openai_error("Incorrect API key provided.", "invalid_request_error", "invalid_api_key")


if __name__ == "__main__":
    Handler.upstream = urlsplit(sys.argv[2]).netloc
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
