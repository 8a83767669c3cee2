"""What stands where in the tables of families: int64[any, words], as `places` has it for ways.

    group ── starts in order        group ── bundle ── bundle       of each kind that there is the families of it
                                               │
                                             node ── node           a heap: the family with the latest start is at the root
                                               │ ╲
                                             node  node

A node is a row, taken behind any of the families of another heap (BEHIND), or the first of a match: so it is as many families as those are.
A heap is never changed where something else has it too: what is put in has new nodes on its way down, and shares the rest.

Words of groups that have the same numbers as in `places` are the same: LAST, SEQ, MATCHES, HEAD and TAIL (of starts), OPEN, DUE.
"""

from __future__ import annotations

from cep.kernels.patterns.places import DESK_WORDS, FAR, NONE

#: Of a group: its first bundle.
BUNDLES = 6
FAMILY_GROUP_WORDS = 8
FRESH_FAMILY_GROUP = (NONE, 0, 0, NONE, NONE, 0, NONE, FAR)
#: Of a start that is open: the next of its group; its event time; its number in the group (NONE: the line is free); its group.
NEXT_OPEN, OPEN_TIME, OPEN_SEQ, OPEN_GROUP = range(4)
OPEN_WORDS = 4
#: Of a bundle: the next of its group, or of those that are matches to be told; kind (NONE: such a match); its heap; its group (NONE: the
#: line is free).
NEXT_BUNDLE, BUNDLE_KIND, HEAP_ROOT, BUNDLE_GROUP = range(4)
BUNDLE_WORDS = 4
#: Of a node: the two heaps below it; how far down on the right it goes; the number in the group of the latest start of its families; how
#: many have it (0: the line is free); row: number among all, number in the group, variable; the heap of the families that it is behind,
#: NONE if it is the first; its group; when it was looked through.
LEFT, RIGHT, RANK, LATEST, HEAP_USES, TAKEN_ROW, TAKEN_SEQ, TAKEN_AS, BEHIND, HEAP_GROUP, LOOKED = range(11)
HEAP_WORDS = 11
#: Of the desk: where lines are free (by twos, as in `places`: the first free one and the used ones) and how many are; the first of the
#: matches to be told; were the open starts of the group at hand counted anew?
FREE_OPEN, USED_OPEN, FREE_BUNDLES, USED_BUNDLES, FREE_HEAP, USED_HEAP = range(6)
LEFT_OPEN, LEFT_BUNDLES, LEFT_HEAP, TO_TELL, RECOUNTED = range(DESK_WORDS, DESK_WORDS + 5)
FAMILY_DESK_WORDS = DESK_WORDS + 5
#: Of the desk, in place of lines that are wanted: it is what comes out that has no room.
WANTS_OUT = -1
#: Nodes that are made, at most, where something is put into a heap: as many as its way down is long, which is a logarithm.
MELD_MAX = 80
#: Of a child: its variable, its kind, is it a match?
CHILD_AS, CHILD_KIND, CHILD_COMPLETE = range(3)
CHILD_WORDS = 3
