"""The rule table of safetensors. Sections: `format` for a single file, `index` for a set."""

from __future__ import annotations

from conformance.build.ruletable import table

RULES = table(
    "safetensors",
    """
frame
file-size | format | A file begins with the eight bytes of the header's length.
header-begin | format | The header begins with an opening brace, without space before it.
header-bounds | format | The header lies inside the file.

syntax
json-bom | format | No byte order mark stands before the JSON text.
json-utf8 | format | The JSON text is UTF-8.
json-surrogate | format | No escape is half of a surrogate pair.
json-depth | format | At most 127 maps and lists are nested in each other.
json-syntax | format | The text follows the grammar of JSON.
json-trailing | format | Nothing but white space follows the JSON text.
json-constant | format | NaN and Infinity are not JSON.
json-number | format | Numbers are finite doubles, or integers of a readable length.
json-duplicate | format | Members of a map have different names, at any depth.
duplicate-name | format | No two tensors have one name.

schema
metadata-map | format | __metadata__, if present, is a map; a null counts as absent.
metadata-text | format | Every value of __metadata__ is text.
tensor-map | format | The entry of a tensor is a map.
dtype | format | dtype is present and text.
shape | format | shape is present and a list of unsigned integers below 2^64.
data-offsets | format | data_offsets is present and a list of two unsigned integers below 2^64.
index-map | index | An index is a map.
index-metadata | index | metadata, if present, is a map.
index-weight-map | index | weight_map is present and maps tensor names to file names.
index-name | index | A file name is one component: it leads nowhere out of the folder.

open
offset-order | format | A tensor does not end before it begins.
shape-product | format | No product of leading dimensions leaves 64 bits.
bit-align | format | Elements of less than a byte fill whole bytes.
byte-length | format | A tensor covers as many bytes as its shape and element type need.
truncated | format | The file is long enough for every tensor.
overlap | format | No two tensors share bytes, and an empty one lies inside no other.
leading-hole | format | The first tensor begins at the first byte after the header.
hole | format | No byte between two tensors is left out.
trailing-bytes | format | The last tensor ends where the file does.
shard-lacks | index | A shard holds every tensor that the index places in it.
shard-unlisted | index | The index lists every tensor of a shard, and under that shard.
set-mixed | index | An index that names the identity of its set names only shards of that set.
""",
)
