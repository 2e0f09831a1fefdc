package codec

import (
	"fmt"
	"strconv"
	"time"
)

// Naive is the location of date-times that were written without an offset: what DateTimeKind reads from such text is in it, and
// what is in it is written without one. Its instants are those of UTC, which is a convention and no knowledge: where a
// clock stood is not told. Use times with an offset where it can be chosen.
var Naive = time.FixedZone("naive", 0)

// Date is a day of the Gregorian calendar. The zero value is no date and is refused.
type Date struct {
	Year  int // 1 to 9999
	Month time.Month
	Day   int
}

// String returns "2024-01-31".
func (d Date) String() string { return fmt.Sprintf("%04d-%02d-%02d", d.Year, int(d.Month), d.Day) }

func (d Date) valid() bool {
	return d.Year >= 1 && d.Year <= 9999 && d.Month >= 1 && d.Month <= 12 && d.Day >= 1 && d.Day <= daysIn(d.Year, int(d.Month))
}

func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// TimeOfDay is a time on the clock, with an offset from UTC or without. The zero value is midnight without one.
type TimeOfDay struct {
	Hour, Minute, Second, Microsecond int
	// Offset is east of UTC, in seconds, below a day, where HasOffset.
	Offset    int
	HasOffset bool
}

// String returns "07:05:09", with a fraction of six digits where it is not zero, and with an offset as "+02:00" where there is one.
func (t TimeOfDay) String() string { return string(t.appendTo(nil)) }

func (t TimeOfDay) valid() bool {
	in := func(n, limit int) bool { return n >= 0 && n < limit }
	return in(t.Hour, 24) && in(t.Minute, 60) && in(t.Second, 60) && in(t.Microsecond, 1e6) && t.Offset > -day && t.Offset < day
}

const day = 24 * 60 * 60

func (t TimeOfDay) appendTo(dst []byte) []byte {
	dst = two(append(two(append(two(dst, t.Hour), ':'), t.Minute), ':'), t.Second)
	if t.Microsecond != 0 {
		dst = append(dst, '.')
		dst = append(dst, strconv.Itoa(1_000_000 + t.Microsecond)[1:]...)
	}
	if t.HasOffset {
		dst = appendOffset(dst, t.Offset)
	}
	return dst
}

func two(dst []byte, n int) []byte { return append(dst, byte('0'+n/10%10), byte('0'+n%10)) }

func appendOffset(dst []byte, seconds int) []byte {
	sign := byte('+')
	if seconds < 0 {
		sign, seconds = '-', -seconds
	}
	dst = two(append(two(append(dst, sign), seconds/3600), ':'), seconds/60%60)
	if s := seconds % 60; s != 0 {
		dst = two(append(dst, ':'), s)
	}
	return dst
}

// DateKind: a JSON string "2024-01-31".
var DateKind = Kind[Date]{
	name: "date",
	append: func(dst []byte, d Date) ([]byte, error) {
		if !d.valid() {
			return dst, badForm("date", "no such day, of the years 1 to 9999")
		}
		return append(append(append(dst, '"'), d.String()...), '"'), nil
	},
	parse: func(raw string) (Date, error) {
		s, err := plain(raw, "date")
		if err != nil {
			return Date{}, err
		}
		c := clockText{s: s}
		d := Date{c.digits(4), time.Month(c.after('-').digits(2)), c.after('-').digits(2)}
		if c.bad || c.s != "" || !d.valid() {
			return Date{}, badForm("date", "not a day as 2024-01-31")
		}
		return d, nil
	},
}

// TimeOfDayKind: a JSON string "07:05:09", with a fraction of six digits where it is not zero, and "+02:00" where there is an offset; UTC is
// "+00:00". It is read in the forms that [DateTimeKind] reads behind a date.
var TimeOfDayKind = Kind[TimeOfDay]{
	name: "time of day",
	append: func(dst []byte, t TimeOfDay) ([]byte, error) {
		if !t.valid() {
			return dst, badForm("time of day", "out of range")
		}
		return append(t.appendTo(append(dst, '"')), '"'), nil
	},
	parse: func(raw string) (TimeOfDay, error) {
		s, err := plain(raw, "time of day")
		if err != nil {
			return TimeOfDay{}, err
		}
		c := clockText{s: s}
		t := c.time()
		if c.bad || c.s != "" || !t.valid() {
			return TimeOfDay{}, badForm("time of day", "not a time as 07:05:09")
		}
		return t, nil
	},
}

// DateTimeKind: a JSON string of ISO 8601, "2024-01-31T07:05:09Z", with a fraction of six digits where it is not zero; what is finer than
// a microsecond is cut off. The offset is "Z" for a location named UTC, nothing for [Naive], and a number for the others. Years
// are 1 to 9999.
//
// It is also read with a space for the T, with another number of fraction digits after a point or a comma (more than
// six are cut off), with the time left out or in hours or minutes only, with an offset as +02, +0200 or +02:00:30, without
// the separators, and as week date 2024-W05-3. Refused are a lower-case z or t, hour 24, second 60, and numbers.
// An offset of zero is read as UTC, none as Naive.
var DateTimeKind = Kind[time.Time]{
	name: "date-time",
	append: func(dst []byte, t time.Time) ([]byte, error) {
		year, month, dayOf := t.Date()
		if year < 1 || year > 9999 {
			return dst, badForm("date-time", "the year is out of 1 to 9999")
		}
		clock := TimeOfDay{Hour: t.Hour(), Minute: t.Minute(), Second: t.Second(), Microsecond: t.Nanosecond() / 1000}
		utc := t.Location().String() == "UTC"
		if t.Location() != Naive && !utc {
			_, clock.Offset = t.Zone()
			clock.HasOffset = true
		}
		if !clock.valid() {
			return dst, badForm("date-time", "the offset is a day or more")
		}
		dst = append(append(dst, '"'), Date{year, month, dayOf}.String()...)
		dst = clock.appendTo(append(dst, 'T'))
		if utc {
			dst = append(dst, 'Z')
		}
		return append(dst, '"'), nil
	},
	parse: func(raw string) (time.Time, error) {
		s, err := plain(raw, "date-time")
		if err != nil {
			return time.Time{}, err
		}
		c := clockText{s: s}
		d := c.date()
		var t TimeOfDay
		if c.s != "" {
			if c.s[0] != 'T' && c.s[0] != ' ' {
				c.bad = true
			}
			c.s = c.s[1:]
			t = c.time()
		}
		if c.bad || c.s != "" || !d.valid() || !t.valid() {
			return time.Time{}, badForm("date-time", "not a time as 2024-01-31T07:05:09Z")
		}
		loc := Naive
		switch {
		case t.HasOffset && t.Offset == 0:
			loc = time.UTC
		case t.HasOffset:
			loc = time.FixedZone("", t.Offset)
		}
		return time.Date(d.Year, d.Month, d.Day, t.Hour, t.Minute, t.Second, t.Microsecond*1000, loc), nil
	},
}

// clockText is what is left of a date or a time. After the first fault everything it reads is zero.
type clockText struct {
	s   string
	bad bool
}

func (c *clockText) digits(n int) int {
	if c.bad || len(c.s) < n {
		c.bad = true
		return 0
	}
	v := 0
	for i := range n {
		b := c.s[i]
		if b < '0' || b > '9' {
			c.bad = true
			return 0
		}
		v = v*10 + int(b-'0')
	}
	c.s = c.s[n:]
	return v
}

// after passes a character, which must be there.
func (c *clockText) after(b byte) *clockText {
	if !c.has(b) {
		c.bad = true
	}
	return c
}

// has passes a character if it is next.
func (c *clockText) has(b byte) bool {
	if c.s == "" || c.s[0] != b {
		return false
	}
	c.s = c.s[1:]
	return true
}

// more says that a digit is next.
func (c *clockText) more() bool { return c.s != "" && c.s[0] >= '0' && c.s[0] <= '9' }

// date reads 2024-01-31, 20240131, 2024-W05, 2024-W05-3, 2024W05 or 2024W053.
func (c *clockText) date() Date {
	year := c.digits(4)
	extended := c.has('-')
	if c.has('W') {
		week, weekday := c.digits(2), 1
		if extended && c.has('-') || !extended && c.more() {
			weekday = c.digits(1)
		}
		return c.weekDate(year, week, weekday)
	}
	month := c.digits(2)
	if extended {
		c.after('-')
	}
	return Date{year, time.Month(month), c.digits(2)}
}

func (c *clockText) weekDate(year, week, weekday int) Date {
	if c.bad || year < 1 || week < 1 || week > 53 || weekday < 1 || weekday > 7 {
		c.bad = true
		return Date{}
	}
	// The fourth of January is always in week 1.
	jan4 := time.Date(year, 1, 4, 0, 0, 0, 0, time.UTC)
	monday := jan4.AddDate(0, 0, -int(jan4.Weekday()+6)%7)
	at := monday.AddDate(0, 0, 7*(week-1)+weekday-1)
	if y, w := at.ISOWeek(); y != year || w != week {
		c.bad = true // not every year has a week 53
	}
	return Date{at.Year(), at.Month(), at.Day()}
}

// time reads 07, 07:05, 07:05:09, 07:05:09.5 or 07:05:09,5, the same without colons, and an offset.
func (c *clockText) time() TimeOfDay {
	t := TimeOfDay{Hour: c.digits(2)}
	if extended := c.has(':'); extended || c.more() {
		t.Minute = c.digits(2)
		if extended && c.has(':') || !extended && c.more() {
			t.Second = c.digits(2)
			if c.has('.') || c.has(',') {
				t.Microsecond = c.fraction()
			}
		}
	}
	t.Offset, t.HasOffset = c.offset()
	return t
}

func (c *clockText) fraction() int {
	end := 0
	for end < len(c.s) && c.s[end] >= '0' && c.s[end] <= '9' {
		end++
	}
	six := (c.s[:end] + "000000")[:6]
	if end == 0 {
		c.bad = true
	}
	c.s = c.s[end:]
	n, _ := strconv.Atoi(six)
	return n
}

func (c *clockText) offset() (seconds int, ok bool) {
	if c.has('Z') {
		return 0, true
	}
	sign := 1
	switch {
	case c.has('+'):
	case c.has('-'):
		sign = -1
	default:
		return 0, false
	}
	var part [3]int
	part[0] = c.digits(2)
	if extended := c.has(':'); extended || c.more() {
		part[1] = c.digits(2)
		if extended && c.has(':') || !extended && c.more() {
			part[2] = c.digits(2)
		}
	}
	if part[0] > 23 || part[1] > 59 || part[2] > 59 {
		c.bad = true
	}
	return sign * (part[0]*3600 + part[1]*60 + part[2]), true
}
