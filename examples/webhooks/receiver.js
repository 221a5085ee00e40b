const { createServer } = require("node:http");
const { Webhook } = require("standardwebhooks");

const webhook = new Webhook(process.env.WEBHOOK_SECRET);
const seen = new Set();

const server = createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    let message;
    try {
      message = webhook.verify(Buffer.concat(chunks).toString(), request.headers);
    } catch {
      response.writeHead(400).end();
      return;
    }
    if (!seen.has(request.headers["webhook-id"])) {
      seen.add(request.headers["webhook-id"]);
      console.log(message.type, message.data.id, message.data.status);
    }
    response.writeHead(204).end();
  });
});
server.listen(Number(process.argv[2]), "127.0.0.1");
