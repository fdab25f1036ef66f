"""`python -m tokenweir` is the command `tokenweir`."""

from __future__ import annotations

from tokenweir.cli.main import main

raise SystemExit(main())
