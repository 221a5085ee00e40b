import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["WEBHOOK_SECRET"])
seen = set()


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            message = webhook.verify(body, dict(self.headers))
        except WebhookVerificationError:
            self.answer(400)
            return
        if self.headers["webhook-id"] not in seen:
            seen.add(self.headers["webhook-id"])
            print(message["type"], message["data"]["id"], message["data"]["status"], flush=True)
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.end_headers()


HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
