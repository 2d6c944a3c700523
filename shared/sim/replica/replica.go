package replica

import (
	"fmt"
	"reflect"
	"time"
)

// Of is a value that shares no memory with v. Like a store, it does not tell
// a list or a map without members from none.
func Of[T any](v T) T {
	c := reflect.New(reflect.TypeFor[T]()).Elem()
	copyInto(c, reflect.ValueOf(&v).Elem())
	return c.Interface().(T)
}

var timeType = reflect.TypeFor[time.Time]()

func copyInto(to, from reflect.Value) {
	switch from.Kind() {
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			copyInto(to.Elem(), from.Elem())
		}
	case reflect.Slice:
		if from.Len() == 0 {
			return
		}
		to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
		if plain(from.Type().Elem().Kind()) {
			reflect.Copy(to, from)
			return
		}
		for i := range from.Len() {
			copyInto(to.Index(i), from.Index(i))
		}
	case reflect.Map:
		if from.Len() == 0 {
			return
		}
		to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
		for m := from.MapRange(); m.Next(); {
			value := reflect.New(from.Type().Elem()).Elem()
			copyInto(value, m.Value())
			to.SetMapIndex(m.Key(), value)
		}
	case reflect.Struct:
		to.Set(from)
		if from.Type() == timeType {
			return
		}
		for i := range from.NumField() {
			if f := from.Field(i); !plain(f.Kind()) {
				to.Field(i).SetZero()
				copyInto(to.Field(i), f)
			}
		}
	default:
		if !plain(from.Kind()) {
			panic(fmt.Errorf("simulated: a %s cannot be stored", from.Type()))
		}
		to.Set(from)
	}
}

// plain reports whether assigning a value of this kind copies it.
func plain(k reflect.Kind) bool {
	return k <= reflect.Complex128 && k != reflect.Uintptr || k == reflect.String
}

// Weight is about how many bytes a value takes.
func Weight(v any) int { return weight(reflect.ValueOf(v)) }

func weight(v reflect.Value) int {
	n := 0
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			n += weight(v.Elem())
		}
	case reflect.String:
		n += v.Len()
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return v.Len()
		}
		for i := range v.Len() {
			n += weight(v.Index(i))
		}
	case reflect.Map:
		for m := v.MapRange(); m.Next(); {
			n += weight(m.Key()) + weight(m.Value())
		}
	case reflect.Struct:
		if v.Type() == timeType {
			return 8
		}
		for i := range v.NumField() {
			n += weight(v.Field(i))
		}
	default:
		n = 8
	}
	return n
}
