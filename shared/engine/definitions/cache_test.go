package definitions

import (
	"strconv"
	"testing"
)

// With more in use than there is room for, most of it is still found, and no more is kept.
func TestBoundedMap_KeepsMostOfWhatIsUsed(t *testing.T) {
	const used = maxCacheEntries + 10
	var m boundedMap[int]
	read := func() (found int) {
		for i := range used {
			key := strconv.Itoa(i)
			if v, ok := m.get(key); ok && v == i {
				found++
			} else {
				m.put(key, i)
			}
		}
		return found
	}
	read()
	if found := read(); found < used/2 || found > maxCacheEntries || len(m.items) != maxCacheEntries {
		t.Errorf("%d of %d are found, %d are kept", found, used, len(m.items))
	}
	m.put("0", 1)
	m.put("0", 2)
	if v, ok := m.get("0"); !ok || v != 2 || len(m.items) != maxCacheEntries {
		t.Errorf("0 is %d, %v, and %d are kept", v, ok, len(m.items))
	}
}
