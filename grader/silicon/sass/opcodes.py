"""Which instructions an NVIDIA disassembler may name, by class and by family of chips.

The names are those of NVIDIA's published instruction tables (CUDA Binary Utilities, Ampere to Blackwell), completed by
what nvdisasm 13.1 names when it is given every opcode, and by what it prints for libraries and for this deck's kernels.
An instruction that is in no class here is one that nobody has judged: the census refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping

from kbh_lint.base.architectures import ARCHITECTURES

__all__ = ["CLASSES", "FAMILIES", "LATER", "MATRIX", "class_of", "family_of"]

FAMILIES: Mapping[str, str] = {f"{major}{minor}": row.family for (major, minor), row in ARCHITECTURES.items()}

MATRIX = frozenset(
    "HMMA IMMA DMMA BMMA QMMA OMMA HGMMA IGMMA QGMMA BGMMA UTCHMMA UTCIMMA UTCQMMA UTCOMMA".split()
)  # fmt: skip

CLASSES: Mapping[str, frozenset[str]] = {
    name: frozenset(text.split())
    for name, text in {
        "float32": "FADD FADD32I FADD2 FCHK FFMA FFMA32I FFMA2 FMNMX FMNMX3 FMUL FMUL32I FMUL2 FSEL FSET FSETP FSWZADD "
        "MUFU FHADD FHFMA",
        "float16": "HADD2 HADD2_32I HFMA2 HFMA2_32I HMNMX2 HMUL2 HMUL2_32I HSET2 HSETP2 VHMNMX QADD4 QFMA4 QMUL4",
        "float64": "DADD DFMA DMNMX DMUL DSET DSETP",
        "integer": "BMSK BREV FLO IABS IADD IADD3 IADD32I IDP IDP4A IMAD IMAD32I IMNMX IMUL IMUL32I ISCADD ISCADD32I "
        "ISETP LEA LOP LOP3 LOP32I POPC SGXT SHF SHL SHR VABSDIFF VABSDIFF4 VIADD VIADDMNMX VIMNMX VIMNMX3 CREDUX "
        "REDUX",
        "conversion": "F2F F2FP F2I F2IP FRND I2F I2FP I2I I2IP UF2F UF2FP UF2I UF2IP UFRND UI2F UI2FP UI2I UI2IP",
        "movement": "MOV MOV32I MOVM MOV64IUR PRMT SEL SHFL S2R CS2R P2R R2P PLOP3 PSETP CSMTEST B2R R2B RPCMOV",
        "uniform": "CS2UR R2UR S2UR UBMSK UBREV UCLEA UFADD UFFMA UFHADD UFHFMA UFLO UFMNMX UFMUL UFSEL UFSET UFSETP "
        "UIABS UIADD3 UIMAD UIMNMX UISETP ULEA ULEPC ULOP ULOP3 ULOP32I UMOV UP2UR UPLOP3 UPOPC UPRMT UPSETP UR2UP "
        "UREDUX USEL USGXT USHF USHL USHR UVIADD UVIMNMX UVOTE VOTEU",
        "memory": "LD LDC LDCU LDG LDGDEPBAR LDGMC LDGSTS LDL LDS LDSM LDTRAM ST STG STL STS STSM STAS ATOM ATOMG "
        "ATOMS RED REDG REDAS CCTL CCTLL CCTLT MATCH MEMBAR ERRBAR FENCE QSPC ULDC ULDG USTG UREDGR ISBERD AL2P "
        "ALD AST IPA OUT PIXLD FOOTPRINT MEMSET UMEMSETS USTGR ULDS USTS",
        "bulk": "UBLKCP UBLKPF UBLKRED UTMACCTL UTMACMDFLUSH UTMALDG UTMAPF UTMAREDG UTMASTG ACQBULK ARRIVES SYNCS "
        "SYNCSU ACQSHMINIT",
        "tensor-memory": "LDT LDTM STT STTM UTCATOMSWS UTCBAR UTCCP UTCSHIFT UVIRTCOUNT",
        "texture": "TEX TLD TLD4 TMML TXD TXQ TXA SUATOM SULD SUQUERY SURED SUST",
        "control": "BAR BMOV BPT BRA BREAK BRX BRXU BSSY BSYNC CALL CGAERRBAR DEPBAR ELECT ENDCOLLECTIVE EXIT "
        "GETLMEMBASE JMP JMX JMXU KILL LEPC NANOSLEEP NOP PMTRIG PREEXIT RET RTT SETCTAID SETLMEMBASE UCGABAR_ARV "
        "UCGABAR_GET UCGABAR_SET UCGABAR_WAIT UGETNEXTWORKID USETMAXREG USETSHMSZ VOTE WARPGROUP WARPGROUPSET WARPSYNC "
        "YIELD",
    }.items()
}

# What a family has that those before it have not. A disassembly for an older chip that names it was misread.
_ADA, _HOPPER, _BLACKWELL = ("ada",), ("hopper",), ("blackwell-tmem", "blackwell")
LATER: Mapping[str, tuple[str, ...]] = {
    name: families
    for families, text in (
        (("ada", "blackwell"), "QMMA"),
        (("blackwell",), "OMMA"),
        (_HOPPER, "HGMMA IGMMA QGMMA BGMMA WARPGROUP WARPGROUPSET"),
        (("blackwell-tmem",), "UTCHMMA UTCIMMA UTCQMMA UTCOMMA UTCATOMSWS UTCBAR UTCCP UTCSHIFT LDTM STTM"),
        (
            _HOPPER + _BLACKWELL,
            "ACQBULK ELECT SYNCS STSM STAS REDAS UBLKCP UBLKPF UBLKRED UCGABAR_ARV UCGABAR_WAIT UTMACCTL UTMACMDFLUSH "
            "UTMALDG UTMAPF UTMAREDG UTMASTG USETMAXREG",
        ),
        (_BLACKWELL, "FADD2 FFMA2 FMUL2 FMNMX3 LDCU CREDUX UFADD UFFMA UFMUL UF2I UI2F"),
    )
    for name in text.split()
}

_CLASS: Mapping[str, str] = {name: kind for kind, names in CLASSES.items() for name in names}


def family_of(arch: str) -> str | None:
    """The family of an architecture such as `sm_90a`; None for one that this table does not speak of."""
    return FAMILIES.get(arch.removeprefix("sm_").rstrip("af"))


def class_of(name: str, family: str) -> str | None:
    """The class of an instruction (`matrix` for products of matrices); None when the family is not known to have it."""
    if family not in LATER.get(name, (family,)):
        return None
    return "matrix" if name in MATRIX else _CLASS.get(name)
