#!/usr/bin/env python3
"""Checks an inspan export with nothing but the standard library: chain, blobs, model requests, last line.
usage: verify.py FILE [SEQ:HASH]     SEQ:HASH is a head that was noted elsewhere, the anchor
exit:  0 everything holds, 1 something does not, 2 the file cannot be read"""
import hashlib, json, sys
from base64 import b64decode

class Fault(Exception): pass

def places(parts):
    """Every (uri, digest) in which a message part, or a part inside it, may name a blob."""
    for part in parts:
        file, thought, result = part.get("file", {}), part.get("reasoning", {}), part.get("tool_result", {})
        yield file.get("uri", ""), file.get("digest", "")
        yield thought.get("opaque_uri", ""), thought.get("opaque_digest", "")
        yield result.get("output_uri", ""), result.get("output_digest", "")
        yield from places(thought.get("summary", []) + result.get("content", []))

class Check:
    def __init__(self, anchor):
        self.anchor, self.anchored, self.seq, self.hash, self.text, self.open = anchor, False, 0, "", b"", None
        self.counts, self.lines_sha = {"lines": 0, "records": 0, "blobs": 0, "requests": 0}, hashlib.sha256()
        self.blobs, self.requests, self.named, self.asked, self.not_kept = set(), set(), set(), set(), set()
    def need(self, holds, kind, text, seq=None):
        if not holds:
            raise Fault(f"fault at {self.seq + 1 if seq is None else seq}: {kind}: {text}")
    def export(self, format, version):
        self.need((format, version) == ("inspan-export", 1), "file", "no export of version 1")
    def session(self, head, **_):
        self.head = head
    def blob(self, digest, at, size, base64):
        chunk = b64decode(base64, validate=True)
        *expected, sha = self.open or (digest, size, 0, hashlib.sha256())
        in_order = expected == [digest, size, at] and at + len(chunk) <= size and (chunk or not size)
        self.need(in_order, "file", f"a chunk of blob {digest} is out of order")
        sha.update(chunk)
        self.open = (digest, size, at + len(chunk), sha) if at + len(chunk) < size else None
        if not self.open:
            self.need(sha.hexdigest() == digest, "blob", f"blob {digest} holds other bytes")
            self.blobs.add(digest)
            self.counts["blobs"] += 1
    def request(self, digest, prefix, suffix, middle):
        self.need(0 <= min(prefix, suffix) and max(prefix, suffix) <= len(self.text), "file", "a request of too much")
        self.text = self.text[:prefix] + middle.encode() + self.text[len(self.text) - suffix:]
        self.need(hashlib.sha256(self.text).hexdigest() == digest, "request", f"{digest} was kept as another text")
        self.requests.add(digest)
        self.counts["requests"] += 1
    def record(self, seq, prev_hash, content_hash, fence, ts, event):
        self.need(seq == self.seq + 1, "gap", f"record {seq} stands where {self.seq + 1} belongs")
        self.need(prev_hash == self.hash, "link", "tampered: it does not link to the record before it")
        whole = '{"event":%s,"prev_hash":"%s","seq":"%d"}' % (event, prev_hash, seq)
        self.need(hashlib.sha256(whole.encode()).hexdigest() == content_hash, "hash", "tampered: it has another hash")
        event = json.loads(event)
        results = [{"tool_result": event.get("result", {})}]
        for uri, digest in places(event.get("message", {}).get("parts", []) + results):
            if uri.startswith("inspan-blob:"):
                blob = uri.removeprefix("inspan-blob:sha256:")
                self.need(blob in self.blobs and digest in ("", "sha256:" + blob), "blob", f"blob {blob} is missing")
                self.named.add(blob)
        if len(asked := event.get("model", {}).get("input_hash", "")) == 64:
            (self.asked if asked in self.requests else self.not_kept).add(asked)
        self.seq, self.hash = seq, content_hash
        self.counts["records"] += 1
        self.anchored = self.anchored or bool(self.anchor) and self.anchor[0] == seq
        self.need(not self.anchored or self.anchor[0] < seq or self.anchor[1] == content_hash, "head", "rewritten", seq)
    def end(self, rest, **said):
        found = dict(self.counts, sha256=self.lines_sha.hexdigest())
        self.need(said == found and not rest, "file", "the file is not as its last line says")
        self.need(self.blobs == self.named, "blob", "a blob that no record names")
        self.need(self.requests == self.asked, "request", "a request that no record has the hash of")
        self.need(self.head == {"seq": self.seq, "hash": self.hash}, "head", "the session ends elsewhere", self.seq)
        self.need(not self.anchor or self.anchor[0] <= self.seq, "head", "truncated before the anchor", self.seq)
    def run(self, file):
        for line in file:
            kinds = {0: ["export"], 1: ["session"]}.get(self.counts["lines"], ["blob", "request", "record", "end"])
            self.need(line.endswith(b"\n"), "truncated", f"the file ends inside line {self.counts['lines'] + 1}")
            (kind, body), = json.loads(line).items()
            self.need(kind in kinds and (kind == "blob" or not self.open), "file", f"a line of kind {kind}")
            getattr(self, kind)(**body, **({"rest": file.read(1)} if kind == "end" else {}))
            if kind == "end": return
            self.lines_sha.update(line)
            self.counts["lines"] += 1
        self.need(False, "truncated", f"the file ends after line {self.counts['lines']}")

def main(path, anchor=""):
    seq, _, known = anchor.partition(":")
    check, fault = Check((int(seq), known) if anchor else None), None
    try:
        with open(path, "rb") as file: check.run(file)
    except Fault as found: fault = found
    except OSError as error: return print(f"cannot read {path}: {error}", file=sys.stderr) or 2
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        fault = f"fault at {check.seq + 1}: file: line {check.counts['lines'] + 1}: {error}"
    print(f"valid up to {check.seq}, head {check.hash or '-'}: {check.counts['records']} records,",
          f"{len(check.named)} blobs, {len(check.asked)} requests ({len(check.not_kept)} not kept),",
          f"anchored at {seq}" if check.anchored else "no anchor: a cut tail would not show")
    return print(fault) or 1 if fault else 0

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) in (2, 3) else print(__doc__, file=sys.stderr) or 2)
