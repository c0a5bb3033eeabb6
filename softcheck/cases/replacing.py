"""Files that are replaced whole: a reader, or a crash at any moment, sees the old content or the new one."""

import os
import secrets
from pathlib import Path


def replace_file(target: Path, content: bytes) -> None:
    """Writes beside the target, flushes to the disk, then renames; the mode stays. Raises OSError and leaves nothing behind."""
    temporary = target.with_name(f".softcheck-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o7777)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
