"""Text as a reader sees it: strings that look the same become equal, whatever their characters."""

import unicodedata

# Pairs of a letter and the Latin letter that it looks like. NFKD decomposes compatibility forms (fullwidth, mathematical,
# circled letters), so the table omits them. It holds an upper-case letter only if its lower case looks different.
_PAIRS = """
аa вb сc ԁd еe гr һh нh іi јj кk ӏl мm пn оo рp ԛq ѕs тt уy үy ѵv ԝw хx ԍg
αa βb εe γy Ηh ηn ιi κk Μm μu Νn νv οo ρp τt Υy υu χx ωw ζz ϲc ϳj
ıi ȷj ɑa ɡg ɩi ᴀa ʙb ᴄc ᴅd ᴇe ꜰf ɢg ʜh ɪi ᴊj ᴋk ʟl ᴍm ɴn ᴏo ᴘp ʀr ꜱs ᴛt ᴜu ᴠv ᴡw ʏy ᴢz øo đd ħh ŧt łl
օo սu հh ոn ցg
ᎠD ᎡR ᎢT ᎪA ᎫJ ᎬE ᎳW ᎷM ᎻH ᏀG ᏃZ ᏏB ᏚS ᏙV ᏞL ᏟC ᏢP ᏦK ᏼB
ꓐB ꓑP ꓓD ꓔT ꓖG ꓗK ꓙJ ꓚC ꓜZ ꓝF ꓟM ꓠN ꓡL ꓢS ꓣR ꓦV ꓧH ꓪW ꓫX ꓬY ꓮA ꓰE ꓲI ꓳO ꓴU
"""
_ALPHABETS = (0x1F150, 0x1F170, 0x1F1E6)  # first of 26 letters in circles, squares and flags, which NFKD leaves alone
_MARKS = ((0x300, 0x370), (0x1AB0, 0x1B00), (0x1DC0, 0x1E00), (0x20D0, 0x2100), (0xFE20, 0xFE30))  # combining marks
_UNSEEN = ((0x115F, 0x1161), (0x17B4, 0x17B6), (0x180B, 0x1810), (0xFE00, 0xFE10), (0xE0000, 0xE1000))

_TABLE: dict[int, str | None] = {
    **{ord(pair[0]): pair[1].lower() for pair in _PAIRS.split()},
    **{start + offset: chr(ord("a") + offset) for start in _ALPHABETS for offset in range(26)},
    **{code: None for start, end in (*_MARKS, *_UNSEEN) for code in range(start, end)},
}


def seen(text: str) -> str:
    """``text`` without case, marks and zero-width characters, and with Latin letters for their look-alikes.

    Use it only to compare texts. ASCII text is only lower-cased. Digits that look like letters stay digits.
    """
    if text.isascii():
        return text.lower()
    whole = unicodedata.normalize("NFKD", text).translate(_TABLE).casefold()
    shown = (character for character in whole if unicodedata.category(character) != "Cf")
    return unicodedata.normalize("NFKC", "".join(shown).translate(_TABLE))


def latin(text: str) -> str:
    """``text`` with Latin letters for single letters that look like them. Case, spaces and punctuation stay."""
    return text if text.isascii() else "".join(map(_latin, text))


def _latin(character: str) -> str:
    letter = seen(character)
    if len(letter) != 1 or not letter.isascii() or not letter.isalpha():
        return character
    return letter.upper() if character.isupper() else letter
