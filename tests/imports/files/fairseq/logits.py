"""Writes logits.npz: what fairseq itself answers to three rows, one of them padded; see make.sh."""

import sys

import numpy as np
import torch
from fairseq import checkpoint_utils  # pyright: ignore


def main() -> None:
    """Ask fairseq."""
    torch.set_num_threads(1)
    models, _, task = checkpoint_utils.load_model_ensemble_and_task(
        ["model.pt"], arg_overrides={"data": sys.argv[1]}
    )
    symbols = task.source_dictionary
    rng = torch.Generator().manual_seed(5)
    source_BS = torch.randint(4, len(symbols) - 10, (3, 17), generator=rng)
    target_BT = torch.randint(4, len(symbols) - 10, (3, 9), generator=rng)
    source_BS[:, 0], source_BS[:, -1], target_BT[:, 0] = symbols.bos(), symbols.eos(), symbols.eos()
    source_BS[0, 5] = symbols.index("<mask>")
    source_BS[2, 11], source_BS[2, 12:] = symbols.eos(), symbols.pad()
    lengths_B = (source_BS != symbols.pad()).sum(1)
    with torch.no_grad():
        logits_BTV = models[0].eval()(source_BS, lengths_B, target_BT)[0]
    np.savez_compressed(
        "logits.npz",
        source_BS=source_BS.numpy().astype(np.int16),
        target_BT=target_BT.numpy().astype(np.int16),
        logits_BTV=logits_BTV.numpy(),
    )


if __name__ == "__main__":
    main()
