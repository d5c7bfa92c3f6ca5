"""A folder takes the place of another one, whole, and the old one is there until then."""

import shutil
import tempfile
from pathlib import Path

from jupyt5.files import atomic_folder

__all__ = ["install_folder"]


def install_folder(new: Path, target: Path) -> None:
    """Copy ``new`` to ``target``; what stood there is kept until the copy is complete.

    Only its owner can read it: a model may repeat what it was trained on. Whoever
    reads ``target`` meanwhile sees the old folder, for a moment none, then the new one.

    Args:
        new: A complete folder, on any disk.
        target: Its place.

    Raises:
        OSError: If there is no room or right to write; ``target`` is then as it was.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    old = target.with_name(f".{target.name}.old")
    if old.exists() and not target.exists():  # an earlier call was killed in that moment
        old.rename(target)
    shutil.rmtree(old, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
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
