package workflow

import (
	"slices"
	"time"
)

// VersionKind says what a version index is for.
type VersionKind string

// The kinds of version indexes.
const (
	DefinitionVersions VersionKind = "definition"
	BlockVersions      VersionKind = "block"
)

// VersionIndex lists the versions of one definition or block in one small item, so that finding the
// newest version does not need to read all of them.
type VersionIndex struct {
	Versions []IndexedVersion `json:"versions"`        // the newest first
	Older    bool             `json:"older,omitempty"` // there are older versions that did not fit
	At       time.Time        `json:"at,omitzero"`     // when it was written; zero if that is unknown
	Revision int64            `json:"-"`               // increases with every write; 0 if the index is not stored
}

// IndexedVersion is an exact version, and whether it is archived.
type IndexedVersion struct {
	Version  string `json:"version"`
	Archived bool   `json:"archived,omitempty"`
}

// NewVersionIndex makes the index of all versions of a name. It holds the newest
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

// Has reports whether the index contains a version, or has dropped versions as old as that.
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

// Newest returns the newest version that satisfies a reference and is not archived. If all matching
// versions are archived, it returns the newest of them; if none matches, the zero value. known is
// false if an older version, which is not in the index, may be the answer.
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
