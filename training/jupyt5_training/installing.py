"""A folder takes the place of another one, whole, and the old one is there until then."""

import glob
import shutil
import tempfile
from pathlib import Path

from jupyt5.files import atomic_folder
from jupyt5_training.locks import locked

__all__ = ["install_folder"]


def install_folder(new: Path, target: Path) -> None:
    """Copy ``new`` to ``target``; what stood there is kept until the copy is complete.

    A second call meanwhile waits. Whoever reads ``target`` sees the old folder, for a moment none,
    then the new one. Only its owner can read it: a model may repeat what it was trained on.

    Args:
        new: A complete folder, on any disk.
        target: Its place.

    Raises:
        OSError: If there is no room or right to write; ``target`` is then as it was.
    """
    with locked(target, wait=True):
        _install(new, target)


def _install(new: Path, target: Path) -> None:
    prefix = f".{target.name}.new."
    for left in target.parent.glob(f"{glob.escape(prefix)}*"):  # by a call that was killed
        shutil.rmtree(left, ignore_errors=True)
    old = target.with_name(f".{target.name}.old")
    if old.exists() and not target.exists():  # an earlier call was killed in that moment
        old.rename(target)
    shutil.rmtree(old, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=prefix))
    try:
        with atomic_folder(staging / target.name) as folder:
            shutil.copytree(new, folder, dirs_exist_ok=True)
        (staging / target.name).chmod(0o700)
        if target.exists():
            target.rename(old)
        try:
            (staging / target.name).rename(target)
        except OSError:
            if old.exists():
                old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
