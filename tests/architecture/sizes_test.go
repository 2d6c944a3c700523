package architecture

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// maxFileBytes bounds the size of a file in the repository. Larger files are mostly built programs,
// which nobody reads and every clone keeps for ever.
const maxFileBytes = 1 << 20

// largeFiles are those that may be larger, each with the reason.
var largeFiles = map[string]string{}

// listTracked lists the files that git keeps. Where the tree is no clone, such as an unpacked archive, all are.
func listTracked(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("git", "-C", repoRoot, "ls-files", "-z").Output()
	if err != nil {
		return listFiles(t, ".")
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// oversized names the files below a folder that are too large, and those that are listed without need.
func oversized(root string, files []string, allowed map[string]string) []string {
	var wrong []string
	large := map[string]bool{}
	for _, f := range files {
		info, err := os.Lstat(filepath.Join(root, f))
		if err != nil || info.Size() <= maxFileBytes { // one that was removed is not there yet
			continue
		}
		if large[f] = true; allowed[f] == "" {
			wrong = append(wrong, fmt.Sprintf("%s has %d bytes, want at most %d: do not commit what is built, or list it with the reason", f, info.Size(), maxFileBytes))
		}
	}
	for f := range allowed {
		if !large[f] {
			wrong = append(wrong, f+" is listed as large, and is not")
		}
	}
	return wrong
}

func TestFiles_AreNotLarge(t *testing.T) {
	files := listTracked(t)
	if len(files) < 100 {
		t.Fatalf("%d files are those of another folder", len(files))
	}
	for _, text := range oversized(repoRoot, files, largeFiles) {
		t.Error(text)
	}
}

func TestOversized_NamesWhatIsTooLarge(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int64{"program": maxFileBytes + 1, "picture": maxFileBytes + 1, "page": maxFileBytes} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	got := oversized(dir, []string{"program", "picture", "page", "removed"}, map[string]string{"picture": "it is one of many colours", "page": "it was once larger"})
	if len(got) != 2 || !strings.HasPrefix(got[0], "program has 1048577 bytes") || !strings.HasPrefix(got[1], "page is listed") {
		t.Errorf("%q", got)
	}
}
