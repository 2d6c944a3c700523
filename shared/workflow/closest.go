package workflow

import (
	"fmt"
	"math"
	"strings"
)

// Closest returns the word of the list that a misspelled word was probably meant to be; "" if none
// is close. A close word differs by case, by a final s, or by at most a third of its letters.
func Closest(word string, words []string) string {
	return ClosestWithin(word, words, math.MaxInt)
}

// ClosestWithin works like Closest, but limits how many letters may differ.
func ClosestWithin(word string, words []string, limit int) string {
	normalize := func(s string) string {
		return strings.TrimSuffix(strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s)), "s")
	}
	best, leastDistance := "", 0
	for _, name := range words {
		d := editDistance(normalize(word), normalize(name))
		if d <= min(limit, len(name)/3) && (best == "" || d < leastDistance) {
			best, leastDistance = name, d
		}
	}
	return best
}

// DidYouMean returns the end of a message about an unknown word: the closest known one; "" if none
// is close.
func DidYouMean(word string, words []string) string {
	if name := Closest(word, words); name != "" {
		return fmt.Sprintf("; did you mean %q?", name)
	}
	return ""
}

// editDistance returns the Levenshtein distance of two words, in bytes.
func editDistance(a, b string) int {
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
