"""The rule table of `.zt`: what a file of `reject/` can break, one line per rule.

Owns the ids, their sections and their stages. It never says how a rule is checked.
"""

from __future__ import annotations

from conformance.build.ruletable import table

CSR = "zt.sparse_csr/1"
COO = "zt.sparse_coo/1"
QUANT = "zt.quant_group/1"
MX = "zt.mx/1"
GGUF = "gguf.<type>/1"
MLX = "mlx.affine/1"
ZSTD = "zt.zstd-seekable/1"
PROFILES = (CSR, COO, QUANT, MX, GGUF, MLX, ZSTD)

# id, without "zt." | section | requirement; a line without "|" opens a stage.
_TABLE = f"""
frame
file-size | 2.1 | A file has at least 48 bytes.
header-magic | 2.2 | The first eight bytes are the magic.
footer-magic | 2.2 | The last eight bytes are the magic.
version | 2.3 | The footer's version is 2, in data shards too.
data-shard | 7.2 | With a manifest length of 0 the manifest's offset and hash are 0 too.
manifest-size | 3.1 | The manifest has at most 1 GiB.
manifest-align | 2.4 | The manifest's offset is a multiple of 4096, and at least 4096.
manifest-bounds | 3.6 | The manifest ends at or before the footer.
manifest-hash | 2.3 | The footer's hash is the XXH3-64 of the manifest.

syntax
cbor-truncated | 3.1 | No item runs past the end of the manifest.
cbor-trailing | 3.1 | Nothing follows the manifest's one item.
cbor-shortest | 3.1 | Every head has the shortest form.
cbor-indefinite | 3.1 | No length is indefinite, and no break stands alone.
cbor-reserved | 3.1 | No head uses the reserved values 28 to 30.
cbor-tag | 3.1 | No item is tagged.
cbor-simple | 3.1 | False, true and null are the only simple values.
cbor-utf8 | 3.1 | Text is valid UTF-8.
cbor-key-order | 3.1 | The keys of a map ascend bytewise in their encoded form.
cbor-key-unique | 3.1 | No key occurs twice in a map.
cbor-float-shortest | 3.1 | A float is no wider than its value requires.
cbor-nan | 3.1 | The only NaN is f9 7e00.
cbor-depth | 3.1 | No item lies more than 32 levels below the root map.

schema
root-map | 3.1 | The manifest is a map.
objects | 3.2 | `objects` is present and a map.
shards | 3.2 | `shards`, if present, is a map.
attributes | 3.1 | `attributes`, if present, is a map.
name-text | 3.5 | Names (of objects, of parts, attribute keys) are text.
name-empty | 3.5 | Names are not empty.
name-length | 3.5 | Names have at most 1024 bytes.
name-nul | 3.5 | Names hold no U+0000.
object-map | 3.3 | An object is a map.
object-shape | 3.3 | `shape` is present, an array of unsigned integers.
object-layout | 3.3 | `layout` is present and text.
object-parts | 3.3 | `parts` is present and a map.
parts-empty | 3.3 | `parts` has at least one entry.
part-map | 3.4 | A part is a map.
part-dtype | 4.1 | `dtype` is present and one of the 12 storage types.
part-type | 3.4 | `type`, if present, is text.
part-blob | 3.4 | `blob` is present, an array of exactly two unsigned integers.
part-shard | 3.4 | `shard`, if present, is text that can name a shard.
part-encoding | 3.4 | `encoding`, if present, is text.
part-decoded-length | 3.4 | `decoded_length` stands beside `encoding`, always and only; unsigned.
part-digest | 3.4 | `digest`, if present, is an algorithm, a colon and lowercase hex.
type-dtype | 4.2 | A registered logical type stands over the dtype it requires.
shard-name | 7.1 | A shard name has 1 to 64 of A-Z a-z 0-9 . _ - and does not begin with a dot.
shard-entry | 7.1 | A shard entry is a map.
shard-size | 7.1 | A shard's `size` is present, an unsigned integer of at least 48.
shard-digest | 7.1 | A shard's `digest` is present and has the form of a digest.

open
shape-rank | 3.3 | A shape has at most 64 dimensions.
shape-product | 3.3 | Multiplied from left to right, the dimensions never exceed 2^64 - 1.
shard-undeclared | 3.4 | The shard a part names is in the shard table.
blob-align | 2.4 | A blob's offset is a multiple of 4096, and at least 4096.
blob-bounds | 2.4 | A blob ends at or before the footer of its file.
blob-overlap | 2.4 | Two blobs of one file, the manifest included, are identical or disjoint.
dense-parts | 5.1 | A dense object has exactly one part, named data.
dense-size | 5.1 | A dense part has the size its shape and type require, in unbounded arithmetic.
csr-rank | {CSR} | A CSR object has two dimensions.
csr-parts | {CSR} | A CSR object has exactly the parts values, indices and indptr.
csr-index-dtype | {CSR} | indices and indptr are both u32 or both u64, without a logical type.
csr-indices-size | {CSR} | The size of indices is a multiple of the index width.
csr-indptr-count | {CSR} | indptr has one entry more than there are rows.
csr-values-size | {CSR} | values has the size its type requires for as many elements as indices has.
coo-rank | {COO} | A COO object has at least one dimension.
coo-parts | {COO} | A COO object has exactly the parts values and coords.
coo-coords-dtype | {COO} | coords are u32 or u64, without a logical type.
coo-coords-size | {COO} | coords hold the same number of indices for each dimension.
coo-values-size | {COO} | values has the size its type requires for as many elements as coords name.
quant-parts | {QUANT} | data and scales are there, and zeros exactly for a zero point as a tensor.
quant-bits | {QUANT} | bits is 2, 3, 4, 5, 6 or 8 and divides the bits of the word.
quant-axis | {QUANT} | axis is a dimension of the object.
quant-group-size | {QUANT} | group_size is 0 or divides the extent of the axis.
quant-packing | {QUANT} | packing names a word, u8 to u64, and an order, lsb_first or msb_first.
quant-per-word | {QUANT} | per_word is the number of codes that a word has room for.
quant-scale-form | {QUANT} | scale_form is f32_factors, f16_factors or e8m0_exponent.
quant-zero-point | {QUANT} | zero_point has a known form, and what that form requires.
quant-data-dtype | {QUANT} | data has the word's type or its signed counterpart.
quant-scales-dtype | {QUANT} | scales has the type that scale_form demands.
quant-zeros-dtype | {QUANT} | zeros is a plain storage type; packed like data, the word's or signed.
quant-data-size | {QUANT} | data holds the codes of all elements in whole words.
quant-scales-size | {QUANT} | scales holds one scale for each group.
quant-zeros-size | {QUANT} | zeros holds as many zero points as there are scales.
mx-parts | {MX} | An MX object has exactly the parts data and scales.
mx-axis | {MX} | axis, if present, is a dimension; the last one otherwise, so there is one.
mx-block-size | {MX} | block_size is present, at least 2, and divides the extent of the axis.
mx-scale-form | {MX} | scale_form is present and e8m0_exponent.
mx-scales-dtype | {MX} | scales is f8_e8m0.
mx-data-dtype | {MX} | data without a logical type is i8.
mx-data-size | {MX} | data has the size its type requires for the elements of the shape.
mx-scales-size | {MX} | scales holds one scale for each block.
gguf-parts | {GGUF} | A GGUF object has exactly one part, data.
gguf-dtype | {GGUF} | data is u8, without a logical type.
gguf-elems-per-block | {GGUF} | elems_per_block is present, at least 1, and divides the elements.
gguf-block-bytes | {GGUF} | block_bytes is present and at least 1.
gguf-size | {GGUF} | data holds the blocks of all elements.
mlx.parts | {MLX} | An MLX object has exactly the parts data, scales and biases.
mlx.bits | {MLX} | bits is 2, 3, 4, 5, 6 or 8.
mlx.group-size | {MLX} | group_size is present, at least 1, and divides the last dimension.
mlx.dtypes | {MLX} | data is u32, scales are f32, f16 or bf16, biases as scales; all are plain.
mlx.data-size | {MLX} | data holds the codes of each row in whole words.
mlx.scales-size | {MLX} | scales and biases hold one element for each group.

content
digest | 3.4 | An xxh3 or sha256 digest is the one of the decoded bytes.
bool-byte | A | The bytes of a bool are 0 or 1.
f4-padding | A | With an odd count the last high nibble of f4_e2m1 is zero.
csr-indptr-start | {CSR} | indptr begins with 0.
csr-indptr-order | {CSR} | indptr does not decrease.
csr-indptr-end | {CSR} | indptr ends with the number of stored elements.
csr-column-order | {CSR} | Within a row the indices strictly increase.
csr-column-bound | {CSR} | Every index is below the number of columns.
coo-coord-bound | {COO} | Every coordinate is below the extent of its dimension.
coo-cell-unique | {COO} | No cell is named twice.
zstd-footer-magic | {ZSTD} | The stored bytes end with the magic of a seek table.
zstd-table-size | {ZSTD} | The seek table fits into the stored bytes and states its true length.
zstd-descriptor | {ZSTD} | Bits 0 to 6 of the table's descriptor are zero.
zstd-table-magic | {ZSTD} | The seek table begins with the magic of its skippable frame.
zstd-compressed-sizes | {ZSTD} | The compressed sizes add up to the bytes before the table.
zstd-decoded-length | {ZSTD} | The decompressed sizes add up to `decoded_length`.
zstd-frame-limit | {ZSTD} | A frame holds at most 16 MiB.
zstd-equal-frames | {ZSTD} | All frames but the last hold equally many bytes.
zstd-frame | {ZSTD} | An entry of the table is exactly one zstd frame.
zstd-checksum-flag | {ZSTD} | Every frame carries a checksum of its content.
zstd-dictionary | {ZSTD} | No frame needs a dictionary.
zstd-frame-size | {ZSTD} | A frame decodes to the size in the table, and states no other.
zstd-data | {ZSTD} | The blocks of a frame can be decompressed.
zstd-checksum | {ZSTD} | The checksum of a frame is the low half of the XXH64 of its content.
zstd-table-checksum | {ZSTD} | A checksum in the table is that of the frame's content.

canonical
canonical-blobs | 6.3.1 | There is one manifest, and no 64 KiB slot before it is unreferenced.
canonical-placement | 6.3.2 | Blobs fill 64 KiB slots, the manifest the last; the footer follows it.
canonical-order | 6.3.3 | Blobs are in the order of their first (object name, part name).
canonical-sharing | 6.3.3 | Parts with equal decoded bytes share one blob.
canonical-raw | 6.3.4 | No part has an encoding.
canonical-digest | 6.3.4 | Every part carries an xxh3 digest of 16 digits, that of its bytes.
canonical-names | 6.3.5 | Object names, part names and attribute keys at every level are in NFC.
canonical-shards | 6.3.6 | There is no shard table.
canonical-padding | 2.4 | Padding and the footer's reserved field are zero.
canonical-manifest | 6.3 | The manifest holds no fields but those of the specification, none empty.
"""


RULES = table("zt", _TABLE)
