package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// assets is the part of CDK's list of assets that is read here, version 36 and later.
type assets struct {
	Files map[string]struct {
		Source struct {
			Path      string `json:"path"`
			Packaging string `json:"packaging"` // zip: a directory; file
		} `json:"source"`
		Destinations map[string]struct {
			ObjectKey string `json:"objectKey"`
		} `json:"destinations"`
	} `json:"files"`
}

// writeTemplate packs the template of the assembly as template.json with the archives of
// its functions under assets, named as the template names them in the bucket.
func (r release) writeTemplate() error {
	lists, err := filepath.Glob(filepath.Join(r.assembly, "*.assets.json"))
	if err != nil {
		return err
	}
	if len(lists) != 1 {
		return fmt.Errorf("%s has %d lists of assets, want that of one stack", r.assembly, len(lists))
	}
	text, err := os.ReadFile(lists[0])
	if err != nil {
		return err
	}
	var all assets
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("%s: %w", lists[0], err)
	}
	template, err := os.ReadFile(strings.TrimSuffix(lists[0], ".assets.json") + ".template.json")
	if err != nil {
		return err
	}
	name := "lockstep_" + r.version + "_cloudformation"
	files := []file{{name: name + "/template.json", content: template}}
	for id, asset := range all.Files {
		if strings.HasSuffix(asset.Source.Path, ".template.json") {
			continue // the template itself
		}
		if asset.Source.Packaging != "zip" || len(asset.Destinations) != 1 {
			return fmt.Errorf("asset %s: packaging %q, %d destinations", id, asset.Source.Packaging, len(asset.Destinations))
		}
		content, err := listFiles(filepath.Join(r.assembly, asset.Source.Path), "")
		if err != nil {
			return err
		}
		packed, err := packZip(content)
		if err != nil {
			return err
		}
		for _, d := range asset.Destinations {
			if !strings.Contains(string(template), `"`+d.ObjectKey+`"`) {
				return fmt.Errorf("asset %s: the template does not name %s", id, d.ObjectKey)
			}
			files = append(files, file{name: name + "/assets/" + path.Base(d.ObjectKey), content: packed})
		}
	}
	if len(files) == 1 {
		return fmt.Errorf("%s lists no functions", lists[0])
	}
	sortFiles(files)
	return writeArchive(filepath.Join(r.out, name+".zip"), files)
}
