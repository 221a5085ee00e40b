"""Writes a tiny llama with random weights and serves it; runs in an environment of its own.

The vocabulary has the byte tokens that every tokenizer needs, single characters, some words, and
ends of texts such as `",`, as real vocabularies have. Bytes that are no ASCII are never written:
random ones are not UTF-8, which the server refuses to send.
"""

import sys
import time

import gguf  # type: ignore[import-not-found]
import numpy as np
import xllamacpp  # type: ignore[import-not-found]

DIM, HIDDEN, HEADS, CONTEXT = 32, 64, 4, 32_768
SLOTS = 4
WORDS = ["\u2581", "\u2581the", "\u2581of", "\u2581refund", "\u2581we", "s", "ing", "\u2581and"]
ENDS = [
    word + end
    for word in (".", "", "s", "ly", "!", "?")
    for end in ('"', '",', '"}', '"]', '":', '"},', '"],')
]
CHAT = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "assistant:"
)


def write_model(path: str, seed: int, spread: float) -> None:
    """Write a llama of one layer with random weights; `spread` is their standard deviation."""
    kind = gguf.TokenType
    special = [("<unk>", kind.UNKNOWN), ("<s>", kind.CONTROL), ("</s>", kind.CONTROL)]
    of_bytes = [(f"<0x{it:02X}>", kind.BYTE if it < 128 else kind.UNUSED) for it in range(256)]
    texts = dict.fromkeys([*WORDS, *map(chr, range(33, 127)), *ENDS])
    tokens = [*special, *of_bytes, *((it, kind.NORMAL) for it in texts)]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(DIM)
    writer.add_block_count(1)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text.encode() for text, _ in tokens])
    writer.add_token_scores([-float(number) for number in range(len(tokens))])
    writer.add_token_types([it for _, it in tokens])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(CHAT)
    for name, shape in shapes(len(tokens)).items():
        random = np.random.default_rng([seed, len(name)]).normal(0, spread, shape)
        values = np.ones(shape) if "norm" in name else random
        writer.add_tensor(f"{name}.weight", values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def shapes(vocabulary: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor."""
    attention = {f"blk.0.attn_{it}": (DIM, DIM) for it in ("q", "k", "v", "output")}
    return {
        "token_embd": (vocabulary, DIM),
        "output": (vocabulary, DIM),
        "output_norm": (DIM,),
        "blk.0.attn_norm": (DIM,),
        "blk.0.ffn_norm": (DIM,),
        **attention,
        "blk.0.ffn_gate": (HIDDEN, DIM),
        "blk.0.ffn_up": (HIDDEN, DIM),
        "blk.0.ffn_down": (DIM, HIDDEN),
    }


def serve(path: str, port: int) -> None:
    """Serve the model until the process ends."""
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.port = port
    params.n_ctx = SLOTS * CONTEXT
    params.n_parallel = SLOTS
    params.n_gpu_layers = 0
    params.warmup = False
    params.use_jinja = True
    # Threads that wait for each other by spinning are slow where others use the processors too.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    _server = xllamacpp.Server(params)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    file, at, seed, spread = sys.argv[1:]
    write_model(file, int(seed), float(spread))
    serve(file, int(at))
