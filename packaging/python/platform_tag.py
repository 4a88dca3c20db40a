"""The tag of the wheel: any Python 3, and the platform for which the program was built."""

import platform
import re
import sys
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlatformTag(BuildHookInterface):
    """Called by hatchling before it writes the wheel."""

    def initialize(self, version, build_data):
        # A Python for macOS says what it was itself built for, often for both processors.
        own = "macosx-11.0-" + platform.machine() if sys.platform == "darwin" else sysconfig.get_platform()
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + re.sub(r"\W", "_", own)
