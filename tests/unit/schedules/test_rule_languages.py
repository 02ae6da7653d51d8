"""Rules in both languages of the dashboard: the same times, each as people say them."""

from datetime import UTC, date, datetime

import pytest

from standfast import At, Calendar, Cron, Every, Window
from standfast.dashboard.texts import texts_in
from standfast.dashboard.web.formatting import Formatter
from standfast.schedules.description import describe

TAIPEI = {"tz": "Asia/Taipei"}
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("rule", "english", "chinese"),
    [
        (
            Cron("0 3 * * 1-5", **TAIPEI),
            "at 03:00 on weekdays, Asia/Taipei time",
            "每個工作日 03:00（Asia/Taipei）",
        ),
        (Cron("0 2 * * *"), "at 02:00 every day, UTC", "每天 02:00（UTC）"),
        (Cron("0 9,17 * * *"), "at 09:00 and 17:00 every day, UTC", "每天 09:00、17:00（UTC）"),
        (Cron("15 30 2 * * *"), "at 02:30:15 every day, UTC", "每天 02:30:15（UTC）"),
        (Cron("* * * * *"), "every minute", "每分鐘"),
        (Cron("*/15 * * * *"), "every 15 minutes", "每 15 分鐘"),
        (Cron("7-59/15 * * * *"), "every 15 minutes from minute 7", "每 15 分鐘（從第 7 分起）"),
        (Cron("*/7 * * * *"), "every hour at every 7th minute from 0 to 56", "每小時第 0 至 56 分每 7 分"),
        (Cron("@hourly"), "every hour", "每小時"),
        (Cron("5 * * * *"), "every hour at minute 5", "每小時第 5 分"),
        (Cron("5,6,7,20 * * * *"), "every hour at minutes 5 to 7 and 20", "每小時第 5 至 7、20 分"),
        (Cron("*/10 * * * * *"), "every 10 seconds", "每 10 秒"),
        (Cron("30 * * * * *"), "every minute at second 30", "每分鐘第 30 秒"),
        (
            Cron("5 1-20 3 * * *"),
            "at second 5 of minutes 1 to 20 of hour 3 every day, UTC",
            "每天 3 時第 1 至 20 分第 5 秒（UTC）",
        ),
        (
            Cron("*/15 9-17 * * *"),
            "every 15 minutes from 09:00 to 17:45 every day, UTC",
            "每天 09:00 至 17:45 每 15 分鐘（UTC）",
        ),
        (Cron("5 */2 * * *"), "every 2 hours from 00:05 every day, UTC", "每天 00:05 起每 2 小時（UTC）"),
        (
            Cron("1-20 3,5 * * *"),
            "at minutes 1 to 20 of hours 3 and 5 every day, UTC",
            "每天 3、5 時第 1 至 20 分（UTC）",
        ),
        (Cron("0 9 * * MON,THU"), "at 09:00 on Mondays and Thursdays, UTC", "每週一、週四 09:00（UTC）"),
        (Cron("0 9 * * 1-4"), "at 09:00 on Mondays to Thursdays, UTC", "每週一至週四 09:00（UTC）"),
        (Cron("*/5 * * * 6"), "every 5 minutes on Saturdays, UTC", "每週六 每 5 分鐘（UTC）"),
        (Cron("0 9 * * 5L"), "at 09:00 on the last Friday of the month, UTC", "每月最後一個週五 09:00（UTC）"),
        (Cron("0 9 * 3 FRI#2"), "at 09:00 on the second Friday of March, UTC", "3 月第二個週五 09:00（UTC）"),
        (Cron("0 9 * 6-8 1"), "at 09:00 on Mondays in June to August, UTC", "6 月至8 月的每週一 09:00（UTC）"),
        (
            Cron("0 0 1,15 * *"),
            "at 00:00 on the 1st and the 15th of the month, UTC",
            "每月 1 日、15 日 00:00（UTC）",
        ),
        (
            Cron("0 0 1-7,L * *"),
            "at 00:00 on the 1st to 7th and the last day of the month, UTC",
            "每月 1 日至 7 日、最後一天 00:00（UTC）",
        ),
        (Cron("0 0 LW * *"), "at 00:00 on the last weekday of the month, UTC", "每月 最後一個工作日 00:00（UTC）"),
        (Cron("0 0 25 12 *"), "at 00:00 on the 25th of December, UTC", "12 月 25 日 00:00（UTC）"),
        (Cron("0 0 * 1,6 *"), "at 00:00 every day in January and June, UTC", "1 月、6 月每天 00:00（UTC）"),
        (
            Cron("0 0 6 * MON"),
            "at 00:00 on the 6th of the month or on Mondays, UTC",
            "每月 6 日或每週一 00:00（UTC）",
        ),
        (
            Cron("0 0 */2 * MON"),
            "at 00:00 on every 2nd day from the 1st to the 31st of the month, but only on Mondays, UTC",
            "每月 1 日至 31 日每 2 天，且限每週一 00:00（UTC）",
        ),
        (Cron("H H * * *"), "at a time of its own every day, UTC", "每天 專屬的時刻（UTC）"),
        (Cron("H/15 * * * *"), "every 15 minutes from a minute of its own", "每 15 分鐘，從專屬的某一分起"),
        (
            Cron("H 2 * * *"),
            "at a minute of its own from 02:00 to 02:59 every day, UTC",
            "每天 02:00 至 02:59 之間專屬的某一分（UTC）",
        ),
        (Every(3600), "every hour", "每小時"),
        (Every(900), "every 15 minutes", "每 15 分鐘"),
        (Every(5400), "every 1 hour and 30 minutes", "每 1 小時 30 分鐘"),
        (Every(0.5), "every 0.5 seconds", "每 0.5 秒"),
        (Every(3600, anchored=True), "every hour, counted from midnight UTC", "每小時，自 UTC 午夜起算"),
        (At(NEW_YEAR), "once at 2026-01-01 00:00 UTC", "僅於 2026-01-01 00:00 UTC"),
        (
            Cron("0 9 * * *", **TAIPEI) | Every(3600),
            "at 09:00 every day, Asia/Taipei time; or every hour",
            "每天 09:00（Asia/Taipei）；或每小時",
        ),
        (
            Cron("0 9 * * 1-5", exclude=(date(2026, 1, 1), "12-25", Window("03:00", "03:15"))),
            "at 09:00 on weekdays, UTC, excluding 2 dates and 03:00–03:15",
            "每個工作日 09:00（UTC），排除 2 個日期、03:00–03:15",
        ),
        (
            Every(
                60,
                exclude=(
                    "sun",
                    Window("03:00", "03:15", days="sun", months=3, **TAIPEI),
                    Calendar("x", dates="01-01"),
                ),
            ),
            (
                "every minute, excluding Sundays, 03:00–03:15 Asia/Taipei on Sundays in March"
                " and the days of the calendar x"
            ),
            "每分鐘，排除 週日、3 月每週日 03:00–03:15（Asia/Taipei）、行事曆 x 的日子",
        ),
        (
            Every(60, start=NEW_YEAR, jitter=60),
            "every minute, from 2026-01-01 00:00 UTC, put off by up to 1 minute",
            "每分鐘，自 2026-01-01 00:00 UTC 起，最多延後 1 分鐘",
        ),
    ],
    ids=str,
)
def test_rules_are_told_in_both_languages(rule, english, chinese):
    assert str(describe(rule)) == english
    assert Formatter(texts_in("zh-Hant")).say(describe(rule)) == chinese
