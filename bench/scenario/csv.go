package scenario

import (
	"encoding/csv"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// WriteCSV writes rows with a header. Columns are called as in JSON; what has no
// meaning is empty. The groups of a row stand in one column, as name=completed/completable
// with a blank between them.
func WriteCSV(w io.Writer, rows []*Row) error {
	out := csv.NewWriter(w)
	var header []string
	var columns []int
	for i := range reflect.TypeFor[Row]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[Row]().Field(i).Tag.Get("json"), ",")
		if name != "-" {
			header, columns = append(header, name), append(columns, i)
		}
	}
	if err := out.Write(header); err != nil {
		return err
	}
	record := make([]string, len(columns))
	for _, r := range rows {
		for i, field := range columns {
			record[i] = csvField(reflect.ValueOf(r).Elem().Field(field).Interface())
		}
		if err := out.Write(record); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func csvField(v any) string {
	switch v := v.(type) {
	case []GroupRow:
		var groups []string
		for _, g := range v {
			groups = append(groups, fmt.Sprintf("%s=%d/%d", g.Group, g.Completed, g.Completable))
		}
		return strings.Join(groups, " ")
	case *float64:
		if v == nil {
			return ""
		}
		return csvField(*v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}
