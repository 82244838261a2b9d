"""Small model servers over real HTTP, in the formats of the two APIs; each keeps what it was asked."""

import contextlib
import http.server
import json
import threading


class Provider(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.requests = []
        self.headers = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append(request)
        self.server.headers.append(dict(self.headers.items()))
        if self.path != self.PATH:
            return self.answer(404, "application/json", [json.dumps({"error": {"message": self.path}})])
        text = self.say(request)
        if request.get("stream"):
            self.answer(200, "text/event-stream", self.stream(text))
        else:
            self.answer(200, "application/json", [json.dumps(self.plain(text))])

    def answer(self, status, kind, pieces):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in [*map(str.encode, pieces), b""]:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()

    @staticmethod
    def say(request):
        """An answer that depends on the whole conversation, so that a lost turn shows."""
        texts = []
        for message in request["messages"]:
            content = message["content"]
            parts = [content] if isinstance(content, str) else [part["text"] for part in content if part["type"] == "text"]
            texts.append(f"{message['role']}={''.join(parts)}")
        return " | ".join(texts)


class OpenAi(Handler):
    PATH = "/v1/chat/completions"

    def plain(self, text):
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": self.usage()}

    def stream(self, text):
        head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        for piece in pieces(text):
            yield event({**head, "choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]})
        yield event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        yield event({**head, "choices": [], "usage": self.usage()})
        yield "data: [DONE]\n\n"

    @staticmethod
    def usage():
        return {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}


class Anthropic(Handler):
    PATH = "/v1/messages"

    def plain(self, text):
        content = [{"type": "text", "text": text}]
        return {**self.head(), "content": content, "stop_reason": "end_turn", "usage": {"input_tokens": 7, "output_tokens": 5}}

    def stream(self, text):
        usage = {"input_tokens": 7, "output_tokens": 1}
        yield named("message_start", message={**self.head(), "content": [], "stop_reason": None, "usage": usage})
        yield named("content_block_start", index=0, content_block={"type": "text", "text": ""})
        yield named("ping")
        for piece in pieces(text):
            yield named("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
        yield named("content_block_stop", index=0)
        yield named("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage={"output_tokens": 5})
        yield named("message_stop")

    @staticmethod
    def head():
        return {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}


def pieces(text, size=7):
    return [text[at : at + size] for at in range(0, len(text), size)]


def event(data):
    return f"data: {json.dumps(data)}\n\n"


def named(kind, **data):
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"


@contextlib.contextmanager
def serve(handler):
    server = Provider(handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
