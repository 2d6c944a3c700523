package architecture

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	linkRE    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingRE = regexp.MustCompile(`(?m)^#+ +(.+?)\s*$`)
	codeRE    = regexp.MustCompile("(?ms)^```.*?^```$|`[^`\n]*`")
	slugRE    = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// Every link from one page of the repository to another leads to a file, and to a heading that
// it has.
func TestPages_LinksLeadSomewhere(t *testing.T) {
	pages := listPages(t)
	if len(pages) < 30 {
		t.Fatalf("found only %d pages", len(pages))
	}
	for _, page := range pages {
		text := codeRE.ReplaceAllString(string(readFile(t, page)), "")
		for _, link := range linkRE.FindAllStringSubmatch(text, -1) {
			if strings.Contains(link[1], "://") || strings.HasPrefix(link[1], "mailto:") {
				continue
			}
			target, heading, _ := strings.Cut(link[1], "#")
			file := page
			if target != "" {
				file = path.Join(path.Dir(page), target)
			}
			if _, err := os.Stat(filepath.Join(repoRoot, file)); err != nil {
				t.Errorf("%s links to %s: %v", page, link[1], err)
				continue
			}
			if heading != "" && strings.HasSuffix(file, ".md") && !hasHeading(t, file, heading) {
				t.Errorf("%s links to %s, which has no such heading", page, link[1])
			}
		}
	}
}

// listPages lists the pages of the repository: those at its root, in docs and in examples.
func listPages(t *testing.T) []string {
	t.Helper()
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(repoRoot, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			relative, err := filepath.Rel(repoRoot, file)
			if err != nil {
				t.Fatal(err)
			}
			pages = append(pages, filepath.ToSlash(relative))
		}
	}
	return pages
}

// hasHeading reports whether a page has a heading that GitHub links by this name.
func hasHeading(t *testing.T, page, name string) bool {
	t.Helper()
	text := string(readFile(t, page))
	if strings.Contains(text, `id="`+name+`"`) || strings.Contains(text, `name="`+name+`"`) {
		return true
	}
	for _, heading := range headingRE.FindAllStringSubmatch(text, -1) {
		slug := slugRE.ReplaceAllString(strings.ToLower(heading[1]), "")
		if strings.ReplaceAll(slug, " ", "-") == name {
			return true
		}
	}
	return false
}
