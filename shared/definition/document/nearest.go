package document

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// nearest is the word of a list that another was probably meant to be, "" if
// there is nothing like it: one that differs by case, by an s, or by no more than
// a third of its letters.
func nearest(word string, of []string) string {
	plain := func(s string) string {
		return strings.TrimSuffix(strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s)), "s")
	}
	best, least := "", 0
	for _, name := range of {
		d := distance(plain(word), plain(name))
		if d <= len(name)/3 && (best == "" || d < least) {
			best, least = name, d
		}
	}
	return best
}

// Suggest is the end of a sentence on a word that is none of those that there
// are, "" if there is nothing to suggest.
func Suggest(word string, of []string) string {
	if name := nearest(word, of); name != "" {
		return fmt.Sprintf("; did you mean %q?", name)
	}
	return ""
}

// distance is how many letters have to be put in, left out or exchanged to make
// one word of another.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// meant reads a value under the name that its misspelt key was meant to be, so
// that one slip of the pen is one issue: what needs the field finds it.
func (r *Reader) meant(n ast.Node, field Field, path string) {
	if field.read == nil {
		return
	}
	r.known(n, path)
	field.read(n, path)
}

// known notes the places of a value and of what is in it under another path.
func (r *Reader) known(n ast.Node, path string) {
	r.places[path] = n
	if s, ok := n.(*ast.SequenceNode); ok {
		for i, v := range s.Values {
			r.known(v, path+"["+strconv.Itoa(i)+"]")
		}
	}
	for _, v := range pairs(n) {
		r.known(v.Value, Join(path, KeyOf(v)))
	}
}
