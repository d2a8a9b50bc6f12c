"""The rule table of NInfer: what a file of `reject/` can break, one line per rule.

Owns the ids, their sections and their stages. It never says how a rule is checked.
"""

from __future__ import annotations

from conformance.build.ruletable import table

_TABLE = """
frame
file-size | 3.1 | An entry has at least the 32 bytes of its header.
magic | 3.1 | An entry begins with NINFER, a zero and 3; a continuation is no entry.
json-bytes | 3.1 | The length of the JSON text is positive.
json-bounds | 3.1 | The JSON text ends inside the entry.

syntax
json-bom | 1 | No byte order mark stands before the text.
json-utf8 | 1 | The text is UTF-8.
json-surrogate | 1 | No escape is half of a surrogate pair.
json-syntax | 1 | The text follows the grammar of JSON.
json-trailing | 3.1 | Nothing but white space follows the value.
json-constant | 1 | NaN and Infinity are not JSON.
json-duplicate | 1 | Members of an object have different names, at any depth, once unescaped.

schema
root-object | 4 | The directory is an object.
root-fields | 4.1 | The root has the members of 4.1 and no others.
files | 3.3 | `files` is a list and not empty.
objects | 4.1 | `objects` is a list and not empty.
components | 4.1 | `components` is an object and not empty.
bindings | 4.1 | `bindings` is an object.
uses | 4.1 | `uses` is a list.
metadata | 10 | `metadata`, if present, is an object.
provenance | 10 | `provenance`, if present, is an object.
file-fields | 3.3 | A line of the files table has `path` and `payload_bytes` alone.
component-fields | 4.2 | A component has `config`, maybe `target` and `resources`, text `proposal`.
object-kind | 5 | An object is of kind tensor or resource.
object-fields | 5 | An object has the members of its kind and no others.
use-fields | 8 | A use has `parameter` and `input`, maybe `activation_policy` and `auxiliaries`.
use-auxiliaries | 8 | `auxiliaries`, if present, is an object.
binding-form | 7.1 | A binding is either `object` or `parts`.
binding-parts | 7.1 | `parts` is a list and not empty.
part-fields | 7.1 | A part has `object` and `range` alone.
json-number | 1 | Real numbers in `config`, `metadata` and `provenance` are finite doubles.
file-path | 3.3 | The entry's path is null, a continuation's a single file name.
file-bytes | 3.3 | `payload_bytes` is a positive integer of 64 bits.
id-text | 1 | Names and references are text, not empty, without U+0000.
object-shape | 5.1 | `shape` is a list of at most 16 positive integers.
object-offset | 5 | `offset` is an integer of 64 bits.
object-bytes | 5 | `bytes` is a positive integer of 64 bits.
object-divisors | 5.1 | `divisors`, if present, is a positive integer of 64 bits.
component-values | 4.2 | `config`, `resources` and `proposal` are objects.
proposal | 9.2 | A proposal is full without rows, or indexed with a positive number of rows.
part-range | 7.1 | `range` is two integers of 64 bits, the first below the second.
use-policy | 8 | `activation_policy`, if present, is one of three words.
metadata-name | 10 | `name` in `metadata`, if present, is text and not empty.

open
payload-size | 2.2 | The payload of all files has fewer than 2^64 bytes.
file-path-unique | 3.3 | No two files of the set have one name.
entry-size | 3.1 | The entry is exactly as long as the directory says.
object-id-unique | 5.3 | No two objects have one id.
shape-elements | 1 | A shape has fewer than 2^64 elements.
object-order | 5.3 | Objects stand in the order of their offsets.
object-overlap | 5.3 | No two objects share a byte.
object-bounds | 5.3 | Objects lie inside the payload.
binding-object | 11.1 | What a binding refers to is there and a tensor.
part-bounds | 7.1 | A range lies inside the elements of its object.
parts-elements | 1 | The parts of a binding have fewer than 2^64 elements together.
use-parameter | 8 | The parameter of a use is bound.
use-unique | 8 | A parameter has one use at an input.
component-target | 4.2 | A target is a component.
resource-object | 4.2 | A resource role refers to a resource object.
layout-parts | 6.2 | An encoded object in a `.zt` has exactly one part, `data`.
layout-type | 6.1 | In a `.zt`, `data` is u8 under a logical type that names the format.
layout-shape | 6.2 | In a `.zt`, shape and `divisors` are what the layout holds of the format.
layout-size | 6.2 | In a `.zt`, `data` has the bytes that format, layout and shape need.

content
tensor-align | 5.3 | A tensor starts at a multiple of 256.
tensor-shape | 6.2 | Format, shape and divisors are what the layout holds.
tensor-bytes | 5.3 | A tensor has the bytes its format, layout and shape need.
part-header | 3.2 | A continuation has at least the 32 bytes of its header.
part-magic | 3.2 | A continuation begins with NINPRT, a zero and 3.
part-index | 3.2 | A continuation states its index.
part-artifact | 3.2 | A continuation has the artifact id of its entry.
part-size | 3.2 | A continuation is exactly as long as the directory says.
code-word | 6.1 | A code is one the format has.
scale-word | 6.1 | A scale is one the format has.
zero-scale | 6.1 | Under a scale of zero the codes are zero.
divisor-word | 6.1 | A weight divisor is positive and finite.
padding-word | 6.2 | Codes and scales of padding are canonical.
plane-gap | 6.2 | Bytes between the planes of an object are zero.
activation-divisor | 8 | An activation divisor is one fp32 element, positive and finite.
hadamard-signs | 8 | Signs are K bf16 elements +1 or -1, and K is a multiple of 1024.
input-columns | 8 | Columns are a permutation of the K columns of a GGUF matrix, in int32.
ngram-digest | 9.1 | The digest of an n-gram table is that of its encoded bytes.
hot-profile-frame | 9.1 | A profile has its magic, its head and a word for each row.
hot-profile-table | 9.1 | A profile states rows and fingerprint of its table.
hot-profile-rows | 9.1 | The rows of a profile exist and differ.

architecture
arch-component | 4.2 | Components are known, and there is text, or an n-gram table alone.
arch-target | 4.2 | The target of every component but text is text.
arch-config | 4.2 | A config states the geometry of its architecture.
arch-parameter | 7.1 | Every parameter the components call for is bound.
arch-name | 7.1 | Nothing else is bound.
arch-shape | 7.1 | A whole object has the shape of its parameter.
arch-coverage | 7.1 | Parts have as many elements as their parameter.
arch-words | 7.1 | What has words of its own is stored in them.
arch-parent | 5.3 | No object holds private data of two components.
arch-use | 8 | Every input of a projection has a use.
arch-input | 8 | A use names an input that its parameter has.
arch-policy | 8 | The use of a projection states a policy.
arch-auxiliary | 8 | The role of an auxiliary is known.
"""

READ = ("tensor-align", "tensor-shape", "tensor-bytes", "part-")
"""Rules of the content stage that show when an object is read, not only when it is verified."""

RULES = table("ninfer", _TABLE)
