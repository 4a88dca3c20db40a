"""Writes a tiny GGUF that produces random words and tool calls: tiny_model.py SOURCE.gguf TARGET.gguf

The tokenizer is that of the source. The network is constant: its one layer adds nothing and every
embedding is the same vector, so each token is drawn from the same distribution, whatever the context.
The engine's grammar for tool calls excludes the tokens that do not fit, so a call with valid arguments
results from random tokens.
"""

import math
import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, TokenType

WIDTH = 32
# The words of the model. They are few because the engine draws from the 40 likeliest tokens.
WORDS = "the a of in and to is as on for with by from at this that not all one new file line data list test".split()
# The probability of these tokens; the words share the rest.
SHARES = {"<tool_call>\n": 0.06, "\n": 0.06, '"': 0.12, "}": 0.05, "]": 0.05, "1": 0.02}
END_SHARE = 0.02
NEVER = -14.0

source_path, target_path = sys.argv[1:]
source = GGUFReader(source_path)


def field(key):
    return source.fields[f"tokenizer.{key}"].contents()


tokens = list(field("ggml.tokens"))
kinds = list(field("ggml.token_type"))
end = field("ggml.eos_token_id")

# A marker must be one token, so it replaces a reserved one.
reserved = (index for index, kind in enumerate(kinds) if kind == TokenType.CONTROL and "im_" not in tokens[index] and index > 2)
byte_names = {"\n": "Ċ"}  # how the vocabulary writes a newline
shares = {end: END_SHARE}
for text, share in SHARES.items():
    name = byte_names.get(text, text)
    if name not in tokens:
        index = next(reserved)
        tokens[index], kinds[index] = name, TokenType.USER_DEFINED
    shares[tokens.index(name)] = share

words = np.isin(tokens, [f"Ġ{word}" for word in WORDS])
logits = np.where(words, math.log((1 - sum(shares.values())) / words.sum()), NEVER)
for index, share in shares.items():
    logits[index] = math.log(share)

# The norm turns (1, 0, 0, …) into (√WIDTH, 0, 0, …).
first_only = np.zeros((len(tokens), WIDTH), np.float32)
embeddings = first_only.copy()
embeddings[:, 0] = 1.0
outputs = first_only.copy()
outputs[:, 0] = logits / math.sqrt(WIDTH)

target = GGUFWriter(target_path, "llama")
target.add_name("tiny")
target.add_context_length(131072)
target.add_embedding_length(WIDTH)
target.add_block_count(1)
target.add_feed_forward_length(WIDTH)
target.add_head_count(1)
target.add_head_count_kv(1)
target.add_layer_norm_rms_eps(1e-6)
target.add_rope_dimension_count(WIDTH)
target.add_vocab_size(len(tokens))
target.add_tokenizer_model(field("ggml.model"))
target.add_tokenizer_pre(field("ggml.pre"))
target.add_token_list(tokens)
target.add_token_types(kinds)
target.add_token_merges(list(field("ggml.merges")))
target.add_bos_token_id(field("ggml.bos_token_id"))
target.add_eos_token_id(end)
target.add_add_bos_token(False)


def tensor(name, array):
    kind = np.float32 if array.ndim == 1 or name == "output.weight" else np.float16
    target.add_tensor(name, array.astype(kind))


tensor("token_embd.weight", embeddings)
tensor("output.weight", outputs)
tensor("output_norm.weight", np.ones(WIDTH))
for name in ("attn_norm", "ffn_norm"):
    tensor(f"blk.0.{name}.weight", np.ones(WIDTH))
for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
    tensor(f"blk.0.{name}.weight", np.zeros((WIDTH, WIDTH)))
target.write_header_to_file()
target.write_kv_data_to_file()
target.write_tensors_to_file()
target.close()
