"""Header literals, date patterns, and texts for them: one a line."""

LITERALS = """\
text
5
-129
40000
3000000000
1.5
+1e3
1e40
1e400
.5
5.
99999999999999999999
true
TRUE
false
null
@true@
nullx
2026-02-03
04:05:06.789Z
2026-02-03T04:05:06.789Z
2026-13-45
[1,2,3]
[1, 2.5]
[]
[1,a]
["a","b"]
[1,"a"]
[null,1]
[1,,2]
[1,2
[1,]
{}
{"a":1,"b":300}
{a:1}
{"a":null}
{"a":[1,2]}
{"a":1
{1:2}
a:b
"quoted"
a,b
["2026-02-03"]
[true,false]
{"a":1}x
-
+
1 2
12:30
@7@
1L
0x1F
[[1],[2]]
[1.5,2]
[3000000000,1]
[1,2.5,1e40]
a\\:b
""".replace("@", " ")
PATTERNS = """\
yyyy-MM-dd
yy/M/d
EEE, d MMM yyyy HH:mm:ss Z
EEEE d MMMM y
h:mm a
KK:mm aa
kk.mm
DDD yyyy
yyyyMMddHHmmssSSS
MM
s
SSSSSS
yyyy-MM-dd'T'HH:mm:ssX
u
G yyyy
'it''s' yyyy
yyyyy
LLL
HH:mm z
EE
S
yyy
''yyyy''
dd.MM.yyyy
"""
TEXTS = """\
yyyy-MM-dd|2026-02-30
yyyy-MM-dd|26-2-3x
yyyy-MM-dd|2026-14-03
yyyy-MM-dd|x
yy-MM-dd|26-02-03
yy-MM-dd|2026-02-03
yyyyMMdd|20260203
yyyyMMdd|2026023
EEE, d MMM yyyy HH:mm:ss Z|Tue, 3 Feb 2026 04:05:06 +0130
h:mm a|12:30 am
h:mm a|1:05 PM
yyyy-MM-dd HH:mm|2026-02-03  4:5
d MMMM yyyy|3 february 2026
S|5
SSS|1234
yyyy-MM-dd'T'HH:mm:ssX|2026-02-03T04:05:06Z
yyyy-MM-dd'T'HH:mm:ssX|2026-02-03T04:05:06+02
DDD yyyy|034 2026
kk|24
HH|25
HH:mm z|10:00 GMT+02:00
HH:mm z|10:00 UTC
yyyy-MM-dd HH:mm:ss.SSSSSS|2026-02-03 04:05:06.123456
"""
