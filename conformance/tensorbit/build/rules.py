"""The rule table of Tensorbit: what a file of `reject/` can break, one line per rule.

Owns the ids, their sections and their stages. It never says how a rule is checked. Sections name
parts of the specification: header, layout, mask, file, index, loading, manifest, precision.
"""

from __future__ import annotations

from conformance.build.ruletable import table

NM = "tensorbit.nm/1"

_TABLE = f"""
frame
blob-size | header | A .tb has at least the 4096 bytes of its header.
container-size | file | A .tbm has at least an index and the four bytes of its length.
index-length | loading | The last four bytes give a length of at least 1 that lies before them.

syntax
json-bom | index | No byte order mark stands before the text.
json-utf8 | index | The text is UTF-8.
json-surrogate | index | No escape is half of a surrogate pair.
json-depth | index | At most 64 containers are open at once.
json-syntax | index | The text follows the grammar of JSON.
json-trailing | index | Nothing but white space follows the value.
json-constant | index | NaN and Infinity are not JSON.
json-number | index | Numbers are finite doubles, or integers of a readable length.
json-duplicate | index | Members of an object have different names, at any depth.

schema
index-object | index | The index is an object.
architecture | index | architecture, if present, is text.
config | index | config, if present, is an object.
tensors | index | tensors is present and a list of objects.
entry-name | index | name is present and text that is not empty.
name-unique | index | No two tensors have one name.
entry-offset | index | In a container, offset is present and an unsigned integer.
entry-file | manifest | In a manifest, file is present and a path inside the directory.
entry-shape | index | shape is present and a list of unsigned integers.
entry-count | index | Counts and patterns, where present, are unsigned integers.
entry-dtype | precision | dtype, if present, is fp32, fp16, bf16, fp64, int8 or int4.

open
blob-bounds | loading | The header of a blob ends before the index, or with its file.
magic | header | A blob begins with TB01.
version | header | The version is 1.
pattern | header | N is at most M.
precision | precision | The precision is 0 to 3; beside int8 and int4 it is 0, or 7 and 8.
weights-offset | layout | The weights begin after the header.
weights-bounds | layout | Weights and scales end before the index, or with the file.
mask-size | mask | The size of the mask fits the groups of the weights.
mask-order | layout | The mask begins where weights and scales end, or later.
mask-bounds | layout | The mask ends before the index, or with the file.
pattern-differs | index | The index gives the N:M of the header.
count-differs | index | The index gives the counts of the header.
dtype-differs | precision | The index gives the precision of the header.
size-differs | precision | Where the types differ, the mask begins right behind the weights.
shape | index | A shape has as many elements as the header counts.
overlap | file | Two blobs have one offset, or no byte in common.
blob-end | layout | A .tb ends where its blob does.
nm-pattern | {NM} | `tensorbit` is a map with the integers n and m, n at most m.
nm-dtype | {NM} | dtype in `tensorbit`, if present, is int8 or int4.
nm-group-size | {NM} | group_size in `tensorbit`, if present, is an unsigned integer.
nm-parts | {NM} | The parts are weights, perhaps mask and, where quantized, scales.
nm-types | {NM} | weights are floats, i8 or u8; mask is u8; scales are f32.
nm-weights-size | {NM} | weights hold every element of the shape.
nm-mask-size | {NM} | mask has the bytes that pattern and shape ask for.
nm-scales-size | {NM} | scales hold whole elements.

content
pruned-zero | layout | A weight whose mask bit is clear is 0.0.
mask-count | mask | Every whole group keeps N weights.
mask-truncated | mask | A mask has a bit for each weight, also where M exceeds 8.
"""

RULES = table("tb", _TABLE)
