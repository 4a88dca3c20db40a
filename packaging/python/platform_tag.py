"""The tag of the wheel: any Python 3, and the platform for which the program was built."""

import re
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlatformTag(BuildHookInterface):
    """Called by hatchling before it writes the wheel."""

    def initialize(self, version, build_data):
        platform = re.sub(r"\W", "_", sysconfig.get_platform())
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
