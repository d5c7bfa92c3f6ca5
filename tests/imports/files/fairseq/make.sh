#!/usr/bin/env bash
# How model.pt and logits.npz were made, by the real fairseq 0.12.2 under Python 3.10 (it does not
# import on 3.11). Run it in this folder with the Python of such an environment:
#
#   python3.10 -m venv ENV && ENV/bin/pip install "pip<24.1" "setuptools<60" wheel
#   ENV/bin/pip install torch==1.12.1 "numpy<1.24" "cython<3" omegaconf==2.0.6 hydra-core==1.0.7 \
#       antlr4-python3-runtime==4.8 cffi regex sacrebleu tqdm bitarray PyYAML requests
#   READTHEDOCS=1 ENV/bin/pip install --no-deps --no-build-isolation fairseq==0.12.2
#   # READTHEDOCS leaves the compiled parts out, whose sources the sdist lacks in part; the batching
#   # needs two of them: cython --cplus and g++ -shared -fPIC on data_utils_fast.pyx and
#   # token_block_utils_fast.pyx, put into fairseq/data/.
#   bash make.sh ENV/bin/python
set -euo pipefail
python=$1
work=work
"$python" -m fairseq_cli.preprocess --only-source --srcdict dict.txt --trainpref train.bpe \
  --validpref train.bpe --destdir "$work/bin" --workers 1
"$python" train.py "$work/bin" --task denoising --arch bart_base --mask 0.3 \
  --mask-length span-poisson --poisson-lambda 3 --replace-length 1 --tokens-per-sample 48 \
  --sample-break-mode eos --bpe gpt2 --gpt2-encoder-json encoder.json --gpt2-vocab-bpe vocab.bpe \
  --encoder-embed-dim 16 --encoder-ffn-embed-dim 24 --encoder-layers 2 --encoder-attention-heads 2 \
  --decoder-embed-dim 16 --decoder-ffn-embed-dim 24 --decoder-layers 1 --decoder-attention-heads 2 \
  --max-source-positions 48 --max-target-positions 48 --share-all-embeddings --layernorm-embedding \
  --criterion cross_entropy --optimizer adam --adam-betas '(0.9, 0.98)' --lr 0.05 \
  --lr-scheduler inverse_sqrt --warmup-updates 2 --max-update 12 --batch-size 8 --seed 3 --cpu \
  --save-dir "$work" --no-epoch-checkpoints --no-save-optimizer-state
mv "$work/checkpoint_last.pt" model.pt
"$python" logits.py "$work/bin"
rm -r "$work"
