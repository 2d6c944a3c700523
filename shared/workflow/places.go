package workflow

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Places is a set of entities of one execution, by their places. The place of an entity is its
// number, from 1, in the list of locks that the execution asked for. A place means the same entity
// in every lock item that the execution writes at one lock epoch.
//
// The set is stored as text: as ranges ("1-40,42"), or as a bitmap if that is shorter. In both
// forms a set over n entities takes little more than n/6 bytes.
type Places struct{ ranges []placeRange }

// placeRange is the places from First to Last.
type placeRange struct{ first, last int }

// MaxPlace is the largest place that a set can hold.
const MaxPlace = 1_000_000

// NewPlaces returns the set of the given places, which may be in any order.
func NewPlaces(places ...int) Places {
	sorted := slices.Clone(places)
	slices.Sort(sorted)
	var s Places
	for _, p := range sorted {
		s.append(placeRange{p, p})
	}
	return s
}

// append adds a range that begins at or after the last one of the set.
func (s *Places) append(r placeRange) {
	if n := len(s.ranges); n > 0 && r.first <= s.ranges[n-1].last+1 {
		s.ranges[n-1].last = max(s.ranges[n-1].last, r.last)
		return
	}
	s.ranges = append(s.ranges, r)
}

// All returns the places in ascending order.
func (s Places) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, r := range s.ranges {
			for p := r.first; p <= r.last; p++ {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// At returns the place at an index, from 0, in ascending order; -1 if there are fewer places.
func (s Places) At(number int) int {
	for _, r := range s.ranges {
		n := r.last - r.first + 1
		if number < n {
			return r.first + number
		}
		number -= n
	}
	return -1
}

// Before returns the number of places before one.
func (s Places) Before(place int) (n int) {
	for _, r := range s.ranges {
		n += max(0, min(r.last, place-1)-r.first+1)
	}
	return n
}

// Len returns the number of places.
func (s Places) Len() (n int) {
	for _, r := range s.ranges {
		n += r.last - r.first + 1
	}
	return n
}

// Equal reports whether two sets have the same places.
func (s Places) Equal(o Places) bool { return slices.Equal(s.ranges, o.ranges) }

// Contains reports whether the place is in the set.
func (s Places) Contains(place int) bool {
	i, _ := slices.BinarySearchFunc(s.ranges, place, func(r placeRange, place int) int { return r.last - place })
	return i < len(s.ranges) && s.ranges[i].first <= place
}

// Without returns the set without the places of another.
func (s Places) Without(o Places) Places {
	return s.filter(func(p int) bool { return !o.Contains(p) })
}

// Both returns the places that are in both sets.
func (s Places) Both(o Places) Places { return s.filter(o.Contains) }

func (s Places) filter(keep func(int) bool) Places {
	var kept Places
	for p := range s.All() {
		if keep(p) {
			kept.append(placeRange{p, p})
		}
	}
	return kept
}

// With returns the set with the places of another.
func (s Places) With(o Places) Places {
	return NewPlaces(slices.AppendSeq(slices.Collect(s.All()), o.All())...)
}

// maxRangesText is the length up to which a set is written as ranges, which people can read, even
// if a bitmap is shorter.
const maxRangesText = 64

// bitmapPrefix distinguishes a bitmap from ranges.
const bitmapPrefix = "*"

func (s Places) String() string {
	var b strings.Builder
	for i, r := range s.ranges {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(r.first))
		if r.last > r.first {
			b.WriteString("-" + strconv.Itoa(r.last))
		}
	}
	if n := len(s.ranges); b.Len() > maxRangesText && b.Len() > base64.RawStdEncoding.EncodedLen(s.ranges[n-1].last/8+1) {
		bits := make([]byte, s.ranges[n-1].last/8+1)
		for p := range s.All() {
			bits[p/8] |= 1 << (p % 8)
		}
		return bitmapPrefix + base64.RawStdEncoding.EncodeToString(bits)
	}
	return b.String()
}

// ParsePlaces reads the text of a set.
func ParsePlaces(text string) (s Places, err error) {
	invalid := func() (Places, error) {
		return Places{}, Errorf(CodeInternal, "%q is not a set of places", Truncate(text, MaxShortMessage))
	}
	if encoded, ok := strings.CutPrefix(text, bitmapPrefix); ok {
		bits, err := base64.RawStdEncoding.DecodeString(encoded)
		if err != nil {
			return invalid()
		}
		for p := range min(len(bits)*8, MaxPlace+1) {
			if bits[p/8]&(1<<(p%8)) != 0 {
				s.append(placeRange{p, p})
			}
		}
		return s, nil
	}
	if text == "" {
		return s, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(to)
		}
		if n := len(s.ranges); err != nil || first < 1 || last < first || last > MaxPlace || n > 0 && first <= s.ranges[n-1].last {
			return invalid()
		}
		s.append(placeRange{first, last})
	}
	return s, nil
}

// MarshalJSON writes the text.
func (s Places) MarshalJSON() ([]byte, error) { return EncodeJSON(s.String()) }

// UnmarshalJSON reads the text.
func (s *Places) UnmarshalJSON(raw []byte) (err error) {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return fmt.Errorf("a set of places is a text: %w", err)
	}
	*s, err = ParsePlaces(text)
	return err
}
