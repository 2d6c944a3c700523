package workflow

import "slices"

// VersionKind says what a version index is of.
type VersionKind string

// The kinds of version indexes.
const (
	DefinitionVersions VersionKind = "definition"
	BlockVersions      VersionKind = "block"
)

// VersionIndex names the versions of one definition or block. It is one small item: who
// looks for the newest version does not read all of them.
type VersionIndex struct {
	Versions []IndexedVersion `json:"versions"`        // the newest first
	Older    bool             `json:"older,omitempty"` // there are older versions, for which there was no room
	Revision int64            `json:"-"`               // grows with every write; 0 if the index is not stored
}

// IndexedVersion is an exact version, and whether it is archived.
type IndexedVersion struct {
	Version  string `json:"version"`
	Archived bool   `json:"archived,omitempty"`
}

// NewVersionIndex makes the index of all versions of a name. It has room for the newest
// MaxIndexedVersions.
func NewVersionIndex(all []IndexedVersion) VersionIndex {
	sorted := NewestFirst(all)
	if len(sorted) <= MaxIndexedVersions {
		return VersionIndex{Versions: sorted}
	}
	return VersionIndex{Versions: sorted[:MaxIndexedVersions:MaxIndexedVersions], Older: true}
}

// NewestFirst sorts versions by number, the newest first.
func NewestFirst(all []IndexedVersion) []IndexedVersion {
	return slices.SortedFunc(slices.Values(all), func(a, b IndexedVersion) int {
		v, _ := ParseSemver(a.Version)
		o, _ := ParseSemver(b.Version)
		return o.Compare(v)
	})
}

// Has reports whether the index names a version, or has no room for it.
func (x VersionIndex) Has(version string) bool {
	if slices.ContainsFunc(x.Versions, func(v IndexedVersion) bool { return v.Version == version }) {
		return true
	}
	if !x.Older {
		return false
	}
	oldest, _ := ParseSemver(x.Versions[len(x.Versions)-1].Version)
	v, ok := ParseSemver(version)
	return ok && v.Compare(oldest) < 0
}

// Newest is the newest version that satisfies a reference and is not archived. If all that
// satisfy it are archived it is the newest of those, and if there is none, the zero value.
// known is false if an older version, which the index has no room for, may be the answer.
func (x VersionIndex) Newest(ref Ref) (newest IndexedVersion, known bool) {
	for _, v := range x.Versions {
		switch {
		case !ref.Matches(v.Version):
		case !v.Archived:
			return v, true
		case newest.Version == "":
			newest = v
		}
	}
	return newest, !x.Older
}
