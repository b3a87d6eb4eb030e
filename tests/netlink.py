"""What Linux 6.18 answered to the questions of `outlast.client.hints.netlink`, and a socket that repeats it."""

import socket
import zlib
from base64 import b64decode
from typing import Final, TypeAlias

Recording: TypeAlias = tuple[bytes, ...]
"""The answers to the questions, in their order."""


def _recording(*answers: str) -> Recording:
    return tuple(zlib.decompress(b64decode(answer)) for answer in answers)


MACHINE: Final = _recording(
    "eNrtl01rE1EUht87mUmTaWqjBgUFrSh+4MJYoWhbtdqKBNyImyIFP9oEB8WJmmqXgysX7vwDBVf9C65ciQsXgjtx4VJcdFFciAjjOfeexGQymSom"
    "YEoOTN6TO/fj3HPPfUiu2EAeFhSAD4v0ATvFfkm3AENI4Z4PZDCCLynAod5sDraLzuqeGdBE5GUwrtszOCW6V3Sf6FnR/TLuKMKQ9ZiMnxQ9Lzoj"
    "OoXv4RDptPS/KPOM6XkcHJD5Dkr7CdGi1jTmRC9J3Ee0urJP41sN/x1248fbz/plXV96C3fdJu0XW6JT5D3ww7Hz0+01cjhOObXET+O+/2C5vFzG"
    "a7UHz6n9WVOeoU+09UGTRk0lvIuzPB0t12rcPEXlUk3o2YICRcy1tJO+vL9mxnyTPczIiGicIdnqqOnLfjCZRXBVgZebtyC3o3XMza+dY+U5onGr"
    "SMxIyE+wPpH4XptdX8usF+1XoPqImkNZYjuEbZvm28a5wMaFYKGNJUpn86n0y1KWvMrtormXI3RzDU+sCE8gPPnkoC958urJYtX9aHgShuaEmSdb"
    "xZZi6qW3PNmh7yzVDtUQs8Wvcns32PK39odsQZ0tzIOx6+1s4dpOYou+2wO2JLIl1c6Wk1udLRul9bUpe8CWAVsMD+anB2z5V7asxLCFl57NqwZb"
    "yrU7jd8t9f9B6Q5sWRG2zAlbDAO6xxajm7PFErYoYYsStuQ6sMX6aQ4jypbhw6Zo1uQEVl+Usuxt7HrTd2zhvfA+eA+9iL+ZLS4mGjkdpYxXK17F"
    "v1G59aj2X/Ol5X9R5nI7X7i+0WO+qJi4+40vOZzGY+9hzfPHMYwz4v/mToH6pFq4A/wCWJ4Ugw==",
    "eNqNjjEOwiAYhT9oVdTRDh7DI3R0cHB0NyYOJi7ukp7MO3gdC/JTGlNSjY/Ag5+8L28HVOiw4HkEbaxT4W5Q3EGZ8CM+o+BylbnBxswUn7QKb9mH"
    "nLW2lIn1QGthdV6K+3lgnm7nDfzm7jPuwnYdK+QcSI3le/aEZUxsc17dxJ7Ca4c8/Y3XjPWqbdtznE2EF9790auIOYJ/eKI3LoBI0Q==",
    "eNp1i7sNgEAMQ19yoEtxEi10FGxAxTwsABvSU7IPwhkAW5Y/kg9glIr07OAzvGA4BENmuXFzWtCJ2SsX7kGfrn0isdDyxlo3/vABQlkHuQ==",
    "eNrbwMDAIAHELEB8OZmBgauhgeEfMwMjkMvAwcDP8A9IiwC5Coy8OxgQgFGEgYkBHYgwsDP8RRVi4mBgAxsuwsCKLsfIAZQA2avCwAM27T+bJQMu"
    "wAo0AQQAsXQKEg==",
)
"""A machine: loopback, two interfaces that are down, and one with addresses and ways out for both families."""

CONTAINER: Final = _recording(
    "eNrtljtsE0EQhv+9l8+Ok1yCRSA84oB5BoEDCEF4JSRBAtHQUaLEFiAhTCKcgupKChcQCSGkFBAJClo6KqCBgoKCkoYGRRRUFHRmdm/uOJ8dGxK7"
    "cOSV7H9ub3dudnb2014xAAcaBIDSLP3B0KV9SfUAMei4XQBsdGNFB0waLZuJPtZJNdIGOSLLxlHVb+MY6zbWnaxnWYd43n6Uy1IP8Pwx1vOs46yn"
    "8bscIz3D4y+wn7TyY2KY/e3m/iOsWaUWplinOe59ShO8Ts/WAvsTBrBRWo52sdUtiRHKqca2hTuFuWK+mMdbMYgS9T8I5RlqRyt/CGm0iTrvajWH"
    "tlbWai0/WZGgmlDe3BRFLGvpuXUKpWVvzi9ewzjPiMZZpvas1xsrbXcsDveqgPzcNQ18OirnXP+xeqzSRzRuEYkZdfLj/jxR971qhv8t73vRcaka"
    "9WFSlmTLoKdhvg2ccw1MuCtmlCVCZVPjpNiUpZn5bAVLtFVY8tWEYskUs8Q7881jiafNZ8n9ufTFxaceS8plb3c7LFk7S5ZEP7oorzPzt3I38lRX"
    "QqP3TmhsX8juD9mbAlued6+eNHzkOvwc8+osW5Rq8n5adKDkfsb4Oc6+umQ324nAtujJ89/NddDD2sv1kIJw3/O8w0qHQnVkY5THb+a6G2Ddwv1b"
    "WQ/y+EG1cnUOHKnbVZZs7OBzNMJ6SPlJ0jnJBXEP4WHet9NYmvXtYXzJ+vaugJtJqv3jSZ8FGdY9rHuVxhXnC3el3QzO/2/7R87D5/wycf7ko2rO"
    "y9qox3nF2XVyXtSIu105nzOqOS/zMun8vTMujFbeGa0I57FGzmtNujNqEc5rzHnB51M04Pwi3nz7kKzmvB3klXPG9fNKtB/nbV6HXEMr4g9z3iF2"
    "xymvC/l7N709MlU5N/su2QrGOKG75EtiTOZxhzGtYIwRZUx2YzPm++sXl99NVDPGDO41lWwx9PZjjMnrkGtoRfyNGKO3KWNyTzqMWS9jUmTrFYwB"
    "/gBCMQug",
    "eNrzYWBgEGFgAkIGhp5kBgYmjoZ/jEA2BwMjQz0DAyMHUAZEszMwM+Tkg8Q5GBrAetgY/kPBQjZLBhD2QTdLooGBBWrWMeMUJpBZIBpkVpkBdrNW"
    "AM0B4QA0s7gaIO4SYQCRKIARm1tgZrMycIN1YJjn0PCXGWrevwaIQRMYdv3/9/A4D7J5y4BmLUMzD6TPA9M8sF9B5ikw8u5AciYTNv/BzMPmLhY0"
    "dz3ZvPT/P6+DjsS4SwSImZHMAwEAhGNkfg==",
    "eNorYGBgkABiZiDuSWZgYFJgYPjHwMDIwMTAwMHAD2IDaUaG0wyFjBwMLEAI4rMzHDNOYeJgYAXRQHFJBhBQYeABacMLAFeMCDU=",
    "eNpzYWBgYAJiFiDuSWZgmP3//38DIFuKgREsBgJcDQxwIAIUV2Dk3YEQYWAEAClgBqc=",
)
"""A container: its cable has an address of both families, and a way out for IPv4 alone."""

BRIDGE: Final = _recording(
    "eNrtl89PE0EUx99sd7cttGUpFeRniyCKGi1qTAT8CR5MTMCbRwNt1IRIJMDJw8aTMcTwB3Aw3rx592I4YeKBg0f/AKKJJw/e6puZ7zbTpRS11FjD"
    "JPqdzs6+ffPem08ed2wijywSRPRunv8jOyLnt9UKUZQitLBIFKMk7USIHN4th0Pt0Cm1M0ZsiGcxOq/WY3QB2gsdgF6BZvHeSSqVpI7i/XHoNeh1"
    "6AT9KEVZJ7H/JuzklB2HBmFvCOvnoHmlLk1Db8HvE0pbcE49t8rzj9RF/8socBYbPRJ0mmNqYe7S48UnK8WVIr0XPbTG68+NOJPKaOU/MjQ8RI1n"
    "1YbHqZW1Ws1OXrRwTShrfoY9lrX0NHqZNib0O99xhut4I+xnicerNr1Xzv3xOPl3BcnP3bMIt6Pynftf9vZV2gj7LUI+U434+N8u1Xyuhh18S38v"
    "vC9TpT4cjpIcw5TaN942XfVtuuHvOGGWCBXNKU/gLkZobilfwRJ3D5Z8dkixZBos0Xf+77PEAksEWCL2YclIamZ7ZkuzpFTS2ZUscRGrINJvkYQX"
    "Vu3YBrly/yGWuDiHPEPYf3EAvpos2RBpamWrc0uPCg+KRGvC4ueesbfdmKeNeQcNLBPyKlBPFm2hDrejus7yK1IdxJg992U+o/gdh61WXtaZTXBm"
    "g7nLT7T9JOogBW1DPWRI+JuwcVZp1qijGI1hfyfqrgt6FOvd0FP4To86uboHntQ+1Ge/UofjpvWMspPge1IoxyNL68VgnqON+WA+SJ/ywfxYmZsJ"
    "rv2LiYAFw9Dj0JGGcP53x69w3jM4/4w5Pzm7m/OyNmpxXnG2Ts6LKn43K+cL9m7ORwzOy55xdYxqcp7+kPPWAXHeqpPz6a+jr5c2d3M+GeL1S+TE"
    "tpqvZ0ziHPIMjfDf5LzH7I5zXFeLyw91jhxVzs3ImMz6IWPqZcxWlV7SDjMmfzCMEWCMaABjYvirspE9ZcCc4I4GzGkm1rg4hzxDI/w3WbMgKlnT"
    "yjUS9JezwuF9+g66vD+HflHn0EZuHKgLjUL7yvWu+7g4tBc6AG3BvgR8Sxr9ZcroL9u4f5R+eKiNdvxOw04H7GSg/diXxe8cdCjUxw1W1JjDtU7o"
    "H7U/R4y4ddIHO5h3GXe6G/XLPaEldQR1P4r1oGd1VCybkePrbw45Xi/HZWVGKjhO9BN3qiYD",
    "eNrzYWBgEGFgAkIGht3JDAxMHA3/GIFsDgZGhnoGBkYOoAyIZmdgZsjJB4lzMDSA9bAx/IeCGnZLBhD2QTdLoAHMBpm1RhBiFoRmZkgqMsBqVgvQ"
    "HBAOQDOLqwHiLhEGEIkCGLG5BWY2KwM3WAeGeQ4Nf5mg5v1rgBikwuf//98F/xPI5jUBzWpCM48Zh3nMaOYJvNb8/29R0SFyzWOhwH0iQMyMZB4I"
    "AAAzTWga",
    "eNqzYGBgYAJiZiDenczAMPv///8qQLYUAyNYDASYFBjggAMofpqhkBEA15oGng==",
    "eNpzYWBgYAJiFiDenczAMPv///8GQLYUAyNYDAS4GhjgQAQorsDIuwMhwsAIADOoBtY=",
)
"""A machine whose one address belongs to a bridge that containers are plugged into, and which has no way out."""


class Kernel(socket.socket):
    """Answers what is sent with a recording, as the kernel does within the call; what else is put in comes first."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.recording = recording
        self.asked = 0
        self.waiting: list[bytes | OSError] = []
        self.sender = 0

    def getsockname(self) -> tuple[int, int]:
        """Return the port that the first answer is addressed to."""
        return int.from_bytes(self.recording[0][12:16], "little"), 0

    def send(self, data: object, _flags: int = 0, /) -> int:
        """Take a question."""
        sequence = bytes(data)[8:12]  # type: ignore[call-overload]
        answer = self.recording[self.asked % len(self.recording)]
        port = self.recording[0][12:16]
        self.asked += 1
        self.waiting.append(addressed(answer, sequence + port))
        return len(answer)

    def recvfrom(self, _size: int, _flags: int = 0, /) -> tuple[bytes, tuple[int, int]]:
        """Return what waits next."""
        if not self.waiting:
            raise BlockingIOError
        said = self.waiting.pop(0)
        if isinstance(said, OSError):
            raise said
        return said, (self.sender, 0)


def addressed(datagram: bytes, to: bytes) -> bytes:
    """Return a datagram's messages under another number and port."""
    readdressed, at = bytearray(datagram), 0
    while at < len(datagram):
        readdressed[at + 8 : at + 16] = to
        at += (int.from_bytes(datagram[at : at + 4], "little") + 3) & ~3
    return bytes(readdressed)
