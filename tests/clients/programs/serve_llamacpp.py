"""Serves one GGUF with llama.cpp's own HTTP server: serve_llamacpp.py MODEL PORT ALIAS [TEMPLATE_FILE]"""

import signal
import sys

import xllamacpp

model, port, alias, *template = sys.argv[1:]

params = xllamacpp.CommonParams()
params.model.path = model
params.model_alias = {alias}
params.hostnames = ["127.0.0.1"]
params.port = int(port)
params.n_ctx = 8192
params.n_parallel = 2
params.n_gpu_layers = 0
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
params.use_jinja = True
params.sampling.seed = 7
if template:
    with open(template[0]) as file:
        params.chat_template = file.read()

server = xllamacpp.Server(params)
print("serving", alias, flush=True)
signal.pause()
