package workflow

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Semver is a release version of three numbers.
type Semver struct{ Major, Minor, Patch int }

var (
	nameRE   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)
	semverRE = regexp.MustCompile(`^(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})$`)
	rangeRE  = regexp.MustCompile(`^(0|[1-9][0-9]{0,5})(\.(0|[1-9][0-9]{0,5}))?(\.(0|[1-9][0-9]{0,5}))?$`)
	idRE     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}$`)
)

// ValidName reports whether s can name a package, a workflow or a block.
func ValidName(s string) bool { return nameRE.MatchString(s) }

// ValidID reports whether s can be an entity's id or type: up to 128 characters,
// no slash and no white space.
func ValidID(s string) bool { return idRE.MatchString(s) }

// IsVisible reports whether s consists of 1 to limit visible ASCII characters, as names of callers
// and keys of requests do.
func IsVisible(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	for i := range len(s) {
		if s[i] < '!' || s[i] > '~' {
			return false
		}
	}
	return true
}

// ParseSemver reads a version such as "1.2.3". ok is false if the text is not one.
func ParseSemver(s string) (Semver, bool) {
	m := semverRE.FindStringSubmatch(s)
	if m == nil {
		return Semver{}, false
	}
	return Semver{atoi(m[1]), atoi(m[2]), atoi(m[3])}, true
}

func atoi(s string) int { n, _ := strconv.Atoi(s); return n }

func (v Semver) String() string {
	return strconv.Itoa(v.Major) + "." + strconv.Itoa(v.Minor) + "." + strconv.Itoa(v.Patch)
}

// Compare returns a negative number if v is older than w, zero if they are equal, and a positive
// number if v is newer. Numbers compare numerically.
func (v Semver) Compare(w Semver) int {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch))
}

// Ref names a definition or a block: "package/name", with an optional version
// that may be a major ("1"), a minor ("1.2") or exact ("1.2.3").
type Ref struct {
	Package string `json:"package"`
	Name    string `json:"name"`
	Version string `json:"version"`
}

// ParseRef reads "package/name" or "package/name:version".
func ParseRef(s string) (Ref, error) {
	head, version, hasVersion := strings.Cut(s, ":")
	pkg, name, ok := strings.Cut(head, "/")
	if !ok || !ValidName(pkg) || !ValidName(name) || (hasVersion && !rangeRE.MatchString(version)) {
		return Ref{}, Errorf(CodeInvalid, "%q is not a reference: want package/name or package/name:major[.minor[.patch]]", s)
	}
	return Ref{pkg, name, version}, nil
}

func (r Ref) String() string {
	if r.Version == "" {
		return r.Package + "/" + r.Name
	}
	return r.Package + "/" + r.Name + ":" + r.Version
}

// FullName returns the reference without its version.
func (r Ref) FullName() string { return r.Package + "/" + r.Name }

// Exact reports whether the reference names one version.
func (r Ref) Exact() bool { return semverRE.MatchString(r.Version) }

// Matches reports whether the version v satisfies the reference.
func (r Ref) Matches(v string) bool {
	if _, ok := ParseSemver(v); !ok {
		return false
	}
	return r.Version == "" || v == r.Version || strings.HasPrefix(v, r.Version+".")
}

// Newest returns the newest of the versions that satisfy the reference; "" if none does. Versions
// compare by number: 1.10.0 is newer than 1.9.0.
func (r Ref) Newest(versions []string) string {
	highest, newest := Semver{}, ""
	for _, s := range versions {
		if v, ok := ParseSemver(s); ok && r.Matches(s) && (newest == "" || v.Compare(highest) > 0) {
			highest, newest = v, s
		}
	}
	return newest
}

// PublishedDefinition is a stored definition, with when and by whom it was published.
type PublishedDefinition struct {
	Ref         Ref
	Digest      string // of the canonical source
	Source      []byte // canonical JSON; empty in lists
	Schema      int    // the SchemaVersion that a program needs to read the source; up to 1 for any; 0 in lists
	PublishedAt time.Time
	PublishedBy string
	Archived    bool // starts no new executions
	Draft       bool // starts only executions that allow it, by its exact version

	// Warnings are set only in the response to a publication. They list what does not match the
	// blocks and definitions registered at that time.
	Warnings []Issue
}
